/* Partial results: how they begin, take blocks, and combine. */
#include <math.h>
#include <stdlib.h>

#include "exact.h"
#include "internal.h"

static int is_float(ck_type type) { return type == CK_F32 || type == CK_F64; }
static int is_signed(ck_type type) { return type == CK_I32 || type == CK_I64; }

ck_partial *ck_partial_new(const ck_call *call) {
    ck_partial *const partial = calloc(1, sizeof *partial);
    if (partial == NULL) {
        return NULL;
    }
    partial->kernel = call->kernel;
    partial->type = call->type;
    if (call->kernel == CK_HISTOGRAM) {
        partial->bins = call->bins;
        partial->low = call->low;
        partial->high = call->high;
        partial->counts = calloc((size_t) call->bins + 3, sizeof *partial->counts);
        if (partial->counts == NULL) {
            free(partial);
            return NULL;
        }
    }
    return partial;
}

void ck_partial_delete(ck_partial *partial) {
    if (partial != NULL) {
        free(partial->counts);
        free(partial);
    }
}

/* Whether the first of two values of ck_partial is the smaller. */
static int is_less(ck_type type, uint64_t a, uint64_t b) {
    if (is_float(type)) {
        return ck_bits_double(a) < ck_bits_double(b);
    }
    return is_signed(type) ? (int64_t) a < (int64_t) b : a < b;
}

/* `value` is that of `numbers` elements. */
static void take_value(ck_partial *partial, uint64_t value, uint64_t numbers) {
    if (numbers == 0) {
        return;
    }
    const int have_one = partial->elements > partial->nan;
    const int better = partial->kernel == CK_MIN ? is_less(partial->type, value, partial->value)
                                                 : is_less(partial->type, partial->value, value);
    if (!have_one || better) {
        partial->value = value;
    }
}

ck_status ck_partial_combine(ck_partial *into, const ck_partial *from) {
    if (into->kernel != from->kernel || into->type != from->type || into->bins != from->bins ||
        into->low != from->low || into->high != from->high) {
        return CK_MISMATCH;
    }
    switch (into->kernel) {
    case CK_SUM:
    case CK_DOT_PRODUCT:
        if (is_float(into->type)) {
            ck_exact_merge(&into->finite, &from->finite);
            into->positive_infinities += from->positive_infinities;
            into->negative_infinities += from->negative_infinities;
        } else {
            ck_add_128(&into->total_low, &into->total_high, from->total_low, from->total_high);
        }
        break;
    case CK_XOR:
        into->value ^= from->value;
        break;
    case CK_MIN:
    case CK_MAX:
        take_value(into, from->value, from->elements - from->nan);
        break;
    case CK_HISTOGRAM:
        for (size_t i = 0; i < (size_t) into->bins + 3; i++) {
            into->counts[i] += from->counts[i];
        }
        break;
    default:
        return CK_MISMATCH;
    }
    into->elements += from->elements;
    into->nan += from->nan;
    return CK_OK;
}

double ck_partial_float(const ck_partial *partial) {
    if (partial->nan > 0 || (partial->positive_infinities > 0 && partial->negative_infinities > 0)) {
        return NAN;
    }
    if (partial->positive_infinities > 0) {
        return INFINITY;
    }
    return partial->negative_infinities > 0 ? -INFINITY : ck_exact_value(&partial->finite);
}

void ck_partial_add_total(ck_partial *partial, const ck_total *total) {
    ck_add_128(&partial->total_low, &partial->total_high, total->low, total->high);
}

int ck_partial_add_lanes(ck_partial *partial, const ck_lanes *lanes) {
    for (size_t i = 0; i < CK_LANES; i++) {
        if (!isfinite(lanes->sum[i]) || !isfinite(lanes->error[i])) {
            return 0;
        }
    }
    for (size_t i = 0; i < CK_LANES; i++) {
        ck_exact_add(&partial->finite, lanes->sum[i]);
        ck_exact_add(&partial->finite, lanes->error[i]);
    }
    return 1;
}

void ck_partial_add_extremes(ck_partial *partial, const ck_extremes *extremes, uint64_t elements) {
    uint64_t value = partial->kernel == CK_MIN ? extremes->smallest : extremes->largest;
    if (is_float(partial->type)) {
        value = ck_double_bits(ck_bits_double(value) + 0.0); /* -0 and 0 are the same number */
    }
    take_value(partial, value, elements - extremes->nan);
    partial->nan += extremes->nan;
    partial->elements += elements;
}

/* How many elements, or products, are not finite. A loop for each type, so that it becomes one of vectors. */
#define COUNT_SPECIALS(name, term)                                                                                    \
    static int count_specials_##name(ck_partial *partial, const uint8_t *a, const uint8_t *b, size_t n) {             \
        uint64_t nan = 0, positive = 0, negative = 0;                                                                 \
        (void) b;                                                                                                     \
        for (size_t i = 0; i < n; i++) {                                                                              \
            const double x = (term);                                                                                  \
            nan += x != x;                                                                                            \
            positive += x == INFINITY;                                                                                \
            negative += x == -INFINITY;                                                                               \
        }                                                                                                             \
        partial->nan += nan;                                                                                          \
        partial->positive_infinities += positive;                                                                     \
        partial->negative_infinities += negative;                                                                     \
        return nan + positive + negative > 0;                                                                         \
    }
#define A(type, width) (double) ck_load_##type(a + width * i)
#define B(type, width) (double) ck_load_##type(b + width * i)
COUNT_SPECIALS(f32, A(f32, 4))
COUNT_SPECIALS(f64, A(f64, 8))
COUNT_SPECIALS(products_f32, A(f32, 4) * B(f32, 4))
COUNT_SPECIALS(products_f64, A(f64, 8) * B(f64, 8))

void ck_partial_add_sum(ck_partial *partial, const uint8_t *a, size_t n) {
    const int narrow = partial->type == CK_F32;
    if ((narrow ? count_specials_f32 : count_specials_f64)(partial, a, NULL, n)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ck_exact_add(&partial->finite, narrow ? ck_load_f32(a + 4 * i) : ck_load_f64(a + 8 * i));
    }
}

void ck_partial_add_dot(ck_partial *partial, const uint8_t *a, const uint8_t *b, size_t n) {
    const int narrow = partial->type == CK_F32;
    if ((narrow ? count_specials_products_f32 : count_specials_products_f64)(partial, a, b, n)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const double x = narrow ? ck_load_f32(a + 4 * i) : ck_load_f64(a + 8 * i);
        const double y = narrow ? ck_load_f32(b + 4 * i) : ck_load_f64(b + 8 * i);
        const double product = x * y;
        ck_exact_add(&partial->finite, product);
        /* Of two floats it is exact. */
        ck_exact_add(&partial->finite, narrow ? 0.0 : fma(x, y, -product));
    }
}
