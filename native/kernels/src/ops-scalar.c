/* The reference: each kernel in its plainest form. The others are tested against it. */
#include <math.h>

#include "exact.h"
#include "internal.h"

static void sum_i32(const uint8_t *a, size_t n, ck_total *total) {
    int64_t sum = 0; /* a block has too few for more than 64 bits */
    for (size_t i = 0; i < n; i++) {
        sum += ck_load_i32(a + 4 * i);
    }
    total->low = (uint64_t) sum;
    total->high = sum < 0 ? UINT64_MAX : 0;
}

static void add_signed(ck_total *total, int64_t value) {
    ck_add_128(&total->low, &total->high, (uint64_t) value, value < 0 ? UINT64_MAX : 0);
}

static void sum_i64(const uint8_t *a, size_t n, ck_total *total) {
    total->low = total->high = 0;
    for (size_t i = 0; i < n; i++) {
        add_signed(total, ck_load_i64(a + 8 * i));
    }
}

static void dot_i32(const uint8_t *a, const uint8_t *b, size_t n, ck_total *total) {
    total->low = total->high = 0;
    for (size_t i = 0; i < n; i++) {
        add_signed(total, (int64_t) ck_load_i32(a + 4 * i) * ck_load_i32(b + 4 * i));
    }
}

static void add_f32(const uint8_t *a, size_t n, ck_lanes *lanes) {
    for (size_t i = 0; i < n; i++) {
        ck_two_sum(&lanes->sum[i % CK_LANES], &lanes->error[i % CK_LANES], ck_load_f32(a + 4 * i));
    }
}

static void add_f64(const uint8_t *a, size_t n, ck_lanes *lanes) {
    for (size_t i = 0; i < n; i++) {
        ck_two_sum(&lanes->sum[i % CK_LANES], &lanes->error[i % CK_LANES], ck_load_f64(a + 8 * i));
    }
}

static void add_dot_f32(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes) {
    for (size_t i = 0; i < n; i++) {
        /* Exact: 48 bits. */
        const double product = (double) ck_load_f32(a + 4 * i) * (double) ck_load_f32(b + 4 * i);
        ck_two_sum(&lanes->sum[i % CK_LANES], &lanes->error[i % CK_LANES], product);
    }
}

static void add_dot_f64(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes) {
    for (size_t i = 0; i < n; i++) {
        const double x = ck_load_f64(a + 8 * i);
        const double y = ck_load_f64(b + 8 * i);
        const double product = x * y;
        const double rounded_off = fma(x, y, -product);
        double *const sum = &lanes->sum[i % CK_LANES];
        const double total = *sum + product;
        const double part = total - *sum;
        lanes->error[i % CK_LANES] += ((*sum - (total - part)) + (product - part)) + rounded_off;
        *sum = total;
    }
}

void ck_tail_sum_f32(const uint8_t *a, size_t n, ck_lanes *lanes) { add_f32(a, n, lanes); }
void ck_tail_sum_f64(const uint8_t *a, size_t n, ck_lanes *lanes) { add_f64(a, n, lanes); }
void ck_tail_dot_f32(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes) { add_dot_f32(a, b, n, lanes); }
void ck_tail_dot_f64(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes) { add_dot_f64(a, b, n, lanes); }

static void sum_f32(const uint8_t *a, size_t n, ck_lanes *lanes) {
    memset(lanes, 0, sizeof *lanes);
    add_f32(a, n, lanes);
}

static void sum_f64(const uint8_t *a, size_t n, ck_lanes *lanes) {
    memset(lanes, 0, sizeof *lanes);
    add_f64(a, n, lanes);
}

static void dot_f32(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes) {
    memset(lanes, 0, sizeof *lanes);
    add_dot_f32(a, b, n, lanes);
}

static void dot_f64(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes) {
    memset(lanes, 0, sizeof *lanes);
    add_dot_f64(a, b, n, lanes);
}

static uint64_t xor_words(const uint8_t *a, size_t words) {
    uint64_t value = 0;
    for (size_t i = 0; i < words; i++) {
        value ^= ck_load_u64(a + 8 * i);
    }
    return value;
}

/* Wide: what 64 bits hold of it in ck_extremes. */
#define EXTREMES(name, T, wide)                                                                                       \
    static void extremes_##name(const uint8_t *a, size_t n, ck_extremes *extremes) {                                  \
        T smallest = 0, largest = 0;                                                                                  \
        size_t taken = 0;                                                                                             \
        for (size_t i = 0; i < n; i++) {                                                                              \
            const T value = ck_load_##name(a + sizeof(T) * i);                                                        \
            if (value != value) {                                                                                     \
                continue;                                                                                             \
            }                                                                                                         \
            smallest = taken == 0 || value < smallest ? value : smallest;                                             \
            largest = taken == 0 || value > largest ? value : largest;                                                \
            taken++;                                                                                                  \
        }                                                                                                             \
        extremes->smallest = wide(smallest);                                                                          \
        extremes->largest = wide(largest);                                                                            \
        extremes->nan = n - taken;                                                                                    \
    }

#define SIGNED(value) ((uint64_t) (int64_t) (value))
#define UNSIGNED(value) ((uint64_t) (value))
#define DOUBLE(value) ck_double_bits((double) (value))
EXTREMES(i32, int32_t, SIGNED)
EXTREMES(i64, int64_t, SIGNED)
EXTREMES(f32, float, DOUBLE)
EXTREMES(f64, double, DOUBLE)
EXTREMES(u8, uint8_t, UNSIGNED)
EXTREMES(u16, uint16_t, UNSIGNED)
EXTREMES(u32, uint32_t, UNSIGNED)
EXTREMES(u64, uint64_t, UNSIGNED)

const ck_ops ck_ops_scalar = {
    sum_i32, sum_i64, sum_f32, sum_f64, dot_i32, dot_f32, dot_f64, xor_words,
    { extremes_i32, extremes_i64, extremes_f32, extremes_f64, extremes_u8, extremes_u16, extremes_u32, extremes_u64 },
};
