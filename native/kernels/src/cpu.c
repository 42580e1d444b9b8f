/* Which instruction sets this processor, and this system, have. */
#include "internal.h"

#if defined(__x86_64__) || defined(_M_X64)

#if defined(_MSC_VER)
#include <intrin.h>
static void cpuid(unsigned leaf, unsigned out[4]) { __cpuidex((int *) out, (int) leaf, 0); }
static uint64_t enabled_state(void) { return _xgetbv(0); }
#else
#include <cpuid.h>
static void cpuid(unsigned leaf, unsigned out[4]) {
    if (!__get_cpuid_count(leaf, 0, &out[0], &out[1], &out[2], &out[3])) {
        out[0] = out[1] = out[2] = out[3] = 0;
    }
}
static uint64_t enabled_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t) high << 32 | low;
}
#endif

enum { EBX = 1, ECX = 2 };
static int has(unsigned bits, unsigned bit) { return (bits >> bit & 1) != 0; }

enum { ASKED = 1, AVX2 = 2, AVX512 = 4 };

/* A processor may have instructions whose registers the system does not save: xgetbv says. */
static long ask(void) {
    unsigned basic[4], more[4];
    cpuid(1, basic);
    cpuid(7, more);
    if (!has(basic[ECX], 27) /* osxsave */ || !has(basic[ECX], 28) /* avx */ || !has(basic[ECX], 12) /* fma */) {
        return ASKED;
    }
    const uint64_t state = enabled_state();
    if ((state & 0x6) != 0x6 || !has(more[EBX], 5)) {
        return ASKED;
    }
    const int with_512 = (state & 0xe6) == 0xe6 && has(more[EBX], 16) /* f */ && has(more[EBX], 17) /* dq */ &&
                         has(more[EBX], 30) /* bw */ && has(more[EBX], 31) /* vl */;
    return ASKED | AVX2 | (with_512 ? AVX512 : 0);
}

/*
 * Asked once: in a virtual machine cpuid goes to its host, which takes microseconds, and a run over a small range
 * takes less. Several threads may ask at the same time; all get the same answer.
 */
static long answer(void) {
#if defined(_MSC_VER)
    static volatile long known; /* reads and writes of it are whole there */
    if (known == 0) {
        known = ask();
    }
    return known;
#else
    static long known;
    long found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (found == 0) {
        found = ask();
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found;
#endif
}

int ck_ops_of(ck_isa isa, ck_ops *ops) {
    const int avx2 = (answer() & AVX2) != 0;
    const int with_512 = (answer() & AVX512) != 0;
    if (isa == CK_ISA_BEST) {
        isa = with_512 ? CK_ISA_AVX512 : avx2 ? CK_ISA_AVX2 : CK_ISA_SCALAR;
    }
    if (isa == CK_ISA_SCALAR) {
        *ops = ck_ops_scalar;
        return 1;
    }
    if (!(isa == CK_ISA_AVX512 ? with_512 : isa == CK_ISA_AVX2 && avx2)) {
        return 0;
    }
    *ops = ck_ops_avx2;
    if (isa == CK_ISA_AVX512) {
        ops->sum_f32 = ck_avx512_sum_f32;
        ops->dot_f32 = ck_avx512_dot_f32;
    }
    return 1;
}

#elif defined(__aarch64__) || defined(_M_ARM64)

/* Every 64-bit ARM processor has it. */
int ck_ops_of(ck_isa isa, ck_ops *ops) {
    *ops = isa == CK_ISA_SCALAR ? ck_ops_scalar : ck_ops_neon;
    return isa == CK_ISA_BEST || isa == CK_ISA_NEON || isa == CK_ISA_SCALAR;
}

#else

int ck_ops_of(ck_isa isa, ck_ops *ops) {
    *ops = ck_ops_scalar;
    return isa == CK_ISA_BEST || isa == CK_ISA_SCALAR;
}

#endif

int ck_isa_available(ck_isa isa) {
    ck_ops ops;
    return ck_ops_of(isa, &ops);
}

ck_isa ck_best_isa(void) {
    const ck_isa sets[] = { CK_ISA_AVX512, CK_ISA_AVX2, CK_ISA_NEON };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (ck_isa_available(sets[i])) {
            return sets[i];
        }
    }
    return CK_ISA_SCALAR;
}

const char *ck_isa_name(ck_isa isa) {
    static const char *const names[CK_ISAS] = { "best", "scalar", "avx2", "avx512", "neon" };
    return isa < CK_ISAS ? names[isa] : "unknown";
}
