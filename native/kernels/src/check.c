/* What a call may be. */
#include "internal.h"

#define TYPE(type) (1u << (type))
enum {
    EVERY_TYPE = (1 << CK_TYPES) - 1,
};

static const unsigned taken_types[CK_KERNELS] = {
    [CK_SUM] = TYPE(CK_I32) | TYPE(CK_I64) | TYPE(CK_F32) | TYPE(CK_F64),
    [CK_XOR] = TYPE(CK_U8) | TYPE(CK_U16) | TYPE(CK_U32) | TYPE(CK_U64),
    [CK_DOT_PRODUCT] = TYPE(CK_I32) | TYPE(CK_F32) | TYPE(CK_F64),
    [CK_MIN] = EVERY_TYPE,
    [CK_MAX] = EVERY_TYPE,
    [CK_HISTOGRAM] = EVERY_TYPE,
};

uint32_t ck_abi_version(void) { return CK_ABI_VERSION; }

size_t ck_element_bytes(ck_type type) {
    static const uint8_t bytes[CK_TYPES] = { 4, 8, 4, 8, 1, 2, 4, 8 };
    return bytes[type];
}

ck_status ck_check(const ck_call *call, const ck_input *input) {
    /* The enumerations may hold anything when the caller is not C. */
    if ((unsigned) call->kernel >= CK_KERNELS) {
        return CK_BAD_KERNEL;
    }
    if ((unsigned) call->type >= CK_TYPES || (taken_types[call->kernel] & TYPE(call->type)) == 0) {
        return CK_BAD_TYPE;
    }
    if ((unsigned) call->isa >= CK_ISAS || !ck_isa_available(call->isa)) {
        return CK_BAD_ISA;
    }
    if (call->threads < 1 || call->threads > CK_MAX_THREADS) {
        return CK_BAD_THREADS;
    }
    if (call->kernel == CK_HISTOGRAM) {
        const ck_status status = ck_edges_check(call);
        if (status != CK_OK) {
            return status;
        }
    }
    if (input == NULL) {
        return CK_OK;
    }
    const int needs_second = call->kernel == CK_DOT_PRODUCT && input->bytes > 0;
    if ((input->a == NULL && input->bytes > 0) || (needs_second && input->b == NULL) ||
        (call->kernel != CK_DOT_PRODUCT && input->b != NULL)) {
        return CK_BAD_INPUT;
    }
    return input->bytes % ck_element_bytes(call->type) == 0 ? CK_OK : CK_BAD_LENGTH;
}

const char *ck_status_text(ck_status status) {
    switch (status) {
    case CK_OK:
        return "done";
    case CK_CANCELLED:
        return "cancelled";
    case CK_UNREADABLE:
        return "the input could not be read to its end: its file became shorter, or its disk failed";
    case CK_NO_MEMORY:
        return "there is not enough memory";
    case CK_NO_THREADS:
        return "the system gives no thread";
    case CK_BAD_KERNEL:
        return "there is no such kernel";
    case CK_BAD_TYPE:
        return "the kernel does not take elements of this type";
    case CK_BAD_ISA:
        return "this processor does not have that instruction set";
    case CK_BAD_THREADS:
        return "threads must be from 1 to 256";
    case CK_BAD_INPUT:
        return "dot_product takes two inputs, the other kernels one";
    case CK_BAD_LENGTH:
        return "the input ends in the middle of an element";
    case CK_BAD_BINS:
        return "bins must be from 1 to 65536 between a low and a high that the type has, none too narrow";
    case CK_MISMATCH:
        return "partial results of different calls do not combine";
    }
    return "unknown";
}
