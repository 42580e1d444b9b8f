/* The header, and a call of everything in it, from C: compiled as the standard of 1999 has it, pedantically. */
#include "covey-kernels.h"
#include "covey-kernels.h"

#include <stdio.h>

#define CHECK(condition)                                                                                              \
    if (!(condition)) {                                                                                               \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                               \
        return 1;                                                                                                     \
    }

static void note(void *context, ck_status status) { *(volatile int *) context = 1 + (int) status; }

int main(void) {
    const double elements[3] = { 1.0, 0.5, -4.0 };
    ck_call call = { CK_SUM, CK_F64, CK_ISA_BEST, 1, 0, 0.0, 0.0 };
    ck_input input = { NULL, NULL, sizeof elements, 0 };
    ck_status status = CK_NO_MEMORY;
    volatile int ended = 0;
    ck_partial *sum, *other;
    ck_job *job;

    input.a = elements;
    CHECK(ck_abi_version() == CK_ABI_VERSION);
    CHECK(ck_check(&call, &input) == CK_OK);
    CHECK(ck_element_bytes(call.type) == sizeof elements[0]);
    CHECK(ck_isa_available(CK_ISA_SCALAR) && ck_isa_available(ck_best_isa()));
    CHECK(ck_isa_name(CK_ISA_AVX2)[0] == 'a');
    CHECK(ck_status_text(CK_MISMATCH)[0] != '\0');

    sum = ck_partial_new(&call);
    other = ck_partial_new(&call);
    CHECK(sum != NULL && other != NULL);
    CHECK(ck_run(&call, &input, sum) == CK_OK);
    CHECK(ck_partial_float(sum) == -2.5 && sum->elements == 3);
    job = ck_job_start(&call, &input, other, note, (void *) &ended, &status);
    CHECK(job != NULL && status == CK_OK);
    while (ended == 0) {
        ck_job_cancel(job);
    }
    /* So few elements may be done before they are cancelled. */
    CHECK(ended == 1 + (int) CK_OK || ended == 1 + (int) CK_CANCELLED);
    CHECK(ck_job_bytes_done(job) <= input.bytes);
    ck_job_release(job);
    CHECK(ck_partial_combine(sum, other) == CK_OK);
    ck_partial_delete(sum);
    ck_partial_delete(other);
    ck_partial_delete(NULL);
    return 0;
}
