/*
 * Reductions over arrays in memory, with all processors, exact wherever that can be. A C interface, without
 * scheduling of jobs, files' names or a network; binding/ makes it a Node.js module.
 *
 * Inputs are little-endian elements at any address, as many as there are whole ones. They are only read; when they
 * change meanwhile the result is of some mixture, and nothing worse happens.
 *
 * A run gives a partial result, and partial results combine exactly: integers have 128 bits, sums of floats as many
 * as they need. So a result depends on the elements only: not on threads, instruction sets, or the order of parts.
 * Sums of floats are compensated inside blocks of CK_BLOCK_BYTES, counted from the input's `position`; divided at
 * multiples of that, parts give the very sum that the whole gives. docs/kernels.md has bounds and rules for NaN.
 */
#ifndef COVEY_KERNELS_H
#define COVEY_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CK_BLOCK_BYTES = 4 << 20, CK_MAX_BINS = 65536, CK_MAX_THREADS = 256 };

/* Rises with every change of what is below: numbers, structures, functions, results. */
enum { CK_ABI_VERSION = 1 };
/* Of the library itself, for those that were compiled at another time. */
uint32_t ck_abi_version(void);

typedef enum ck_kernel {
    CK_SUM,         /* i32 i64 f32 f64 */
    CK_XOR,         /* u8 u16 u32 u64: all elements, to one */
    CK_DOT_PRODUCT, /* i32 f32 f64: two inputs */
    CK_MIN,         /* all types; NaN do not take part, zeros have no sign */
    CK_MAX,
    CK_HISTOGRAM, /* all types: equal bins over [low, high) */
    CK_KERNELS
} ck_kernel;

typedef enum ck_type { CK_I32, CK_I64, CK_F32, CK_F64, CK_U8, CK_U16, CK_U32, CK_U64, CK_TYPES } ck_type;

/* Instruction sets. CK_ISA_BEST: for each kernel the fastest that this processor and system have. */
typedef enum ck_isa { CK_ISA_BEST, CK_ISA_SCALAR, CK_ISA_AVX2, CK_ISA_AVX512, CK_ISA_NEON, CK_ISAS } ck_isa;

typedef enum ck_status {
    CK_OK,
    CK_CANCELLED,
    CK_UNREADABLE,  /* a page of the input could not be read: its file became shorter, or its disk failed */
    CK_NO_MEMORY,
    CK_NO_THREADS,
    CK_BAD_KERNEL,
    CK_BAD_TYPE,    /* the kernel does not take it */
    CK_BAD_ISA,     /* this processor does not have it */
    CK_BAD_THREADS, /* not 1..CK_MAX_THREADS */
    CK_BAD_INPUT,   /* no address, or a second one too many or too few */
    CK_BAD_LENGTH,  /* bytes after the last whole element */
    CK_BAD_BINS,    /* see ck_check */
    CK_MISMATCH     /* partial results of different calls */
} ck_status;

typedef struct ck_call {
    ck_kernel kernel;
    ck_type type;
    ck_isa isa;
    uint32_t threads;
    /* Of a histogram; otherwise 0. Integers: low and high are whole and of the type (high may be one past it).
       Floats: a bin is at least 16 steps of a double wide. */
    uint32_t bins;
    double low, high;
} ck_call;

typedef struct ck_input {
    const void *a;
    const void *b;     /* dot_product; otherwise NULL */
    uint64_t bytes;    /* of each */
    uint64_t position; /* of a in the whole, bytes: where blocks begin */
} ck_input;

/* Every finite double is a multiple of 2^-1074; so is a sum of them. Two's complement, lowest word first. */
enum { CK_EXACT_WORDS = 34 };
typedef struct ck_exact {
    uint64_t word[CK_EXACT_WORDS];
} ck_exact;

typedef struct ck_partial {
    ck_kernel kernel;
    ck_type type;
    uint64_t elements;
    /* sum, dot_product of integers: 128 bits, two's complement. */
    uint64_t total_low, total_high;
    /* sum, dot_product of floats: of the blocks in which all elements (products) are finite; and how many are not, any
       of which decides the total alone. */
    ck_exact finite;
    uint64_t nan; /* of min, max and histogram too */
    uint64_t positive_infinities, negative_infinities;
    /* xor. min, max: an integer of 64 bits, signed or not as the type is, or the bits of a double; there is one when
       elements > nan. */
    uint64_t value;
    /* histogram */
    uint32_t bins;
    double low, high;
    uint64_t *counts; /* bins, then: below low, at or above high, NaN */
} ck_partial;

/* CK_OK, or what is wrong with the call or its input (which may be NULL: the call alone is looked at). */
ck_status ck_check(const ck_call *call, const ck_input *input);

/* One sentence, without a full stop. */
const char *ck_status_text(ck_status status);
size_t ck_element_bytes(ck_type type);

/* Of no elements. NULL: no memory. The call is one that ck_check takes. */
ck_partial *ck_partial_new(const ck_call *call);
void ck_partial_delete(ck_partial *partial);
ck_status ck_partial_combine(ck_partial *into, const ck_partial *from);
/* sum, dot_product of floats: the double nearest to the total, as IEEE 754 adds NaN and infinities. */
double ck_partial_float(const ck_partial *partial);

/* Whether this processor has it (and the library, code for it). Best first: ck_best_isa. */
int ck_isa_available(ck_isa isa);
ck_isa ck_best_isa(void);
const char *ck_isa_name(ck_isa isa);

/* Runs to the end on threads of the pool and adds to `partial`, which is of the same call. */
ck_status ck_run(const ck_call *call, const ck_input *input, ck_partial *partial);

/*
 * The same without waiting. `done` is called once, from a thread of the pool, after the last touch of input and
 * partial. The job lives until ck_job_release, which may be called from `done` or later. NULL: `*status` says why,
 * and `done` is not called.
 */
typedef struct ck_job ck_job;
typedef void (*ck_done)(void *context, ck_status status);
ck_job *ck_job_start(const ck_call *call, const ck_input *input, ck_partial *partial, ck_done done, void *context,
                     ck_status *status);
/* Of one input. From any thread. */
uint64_t ck_job_bytes_done(const ck_job *job);
/* It ends after the blocks that threads are in (a few milliseconds), as cancelled unless it was done. */
void ck_job_cancel(ck_job *job);
void ck_job_release(ck_job *job);

#ifdef __cplusplus
}
#endif

#endif
