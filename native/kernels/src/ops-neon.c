#include <arm_neon.h>
#include <math.h>
#include <stdint.h>

#define OPS ck_ops_neon

/* Left to the processor: no figures say otherwise. */
#define prefetch(at) ((void) (at))

typedef float64x2_t vd;
enum { VD = 2 };
#define vd_zero() vdupq_n_f64(0)
#define vd_load(at) vreinterpretq_f64_u8(vld1q_u8((const uint8_t *) (at)))
#define vd_store vst1q_f64
#define vd_add vaddq_f64
#define vd_sub vsubq_f64
#define vd_mul vmulq_f64
#define vd_add_too vaddq_f64
#define vd_sub_too vsubq_f64
/* a * b - c, of which the sign is turned twice. */
#define vd_fmsub(a, b, c) vnegq_f64(vfmsq_f64(c, a, b))

static inline void vd_load_f32(const uint8_t *at, vd *low, vd *high) {
    const float32x4_t x = vreinterpretq_f32_u8(vld1q_u8(at));
    *low = vcvt_f64_f32(vget_low_f32(x));
    *high = vcvt_high_f64_f32(x);
}

typedef uint64x2_t vi;
enum { VI = 16 };
#define vi_zero() vdupq_n_u64(0)
#define vi_load(at) vreinterpretq_u64_u8(vld1q_u8((const uint8_t *) (at)))
#define vi_store(to, x) vst1q_u8((uint8_t *) (to), vreinterpretq_u8_u64(x))
#define vi_xor veorq_u64
#define vi_add64 vaddq_u64
#define vi_add_i32(sum, at)                                                                                           \
    vreinterpretq_u64_s64(vpadalq_s32(vreinterpretq_s64_u64(sum), vreinterpretq_s32_u8(vld1q_u8(at))))
#define vi_biased_high(x) vshrq_n_u64(veorq_u64(x, vdupq_n_u64(UINT64_C(1) << 63)), 32)

static inline void vi_mul_i32(vi a, vi b, vi *first, vi *second) {
    const int32x4_t x = vreinterpretq_s32_u64(a);
    const int32x4_t y = vreinterpretq_s32_u64(b);
    *first = vreinterpretq_u64_s64(vmull_s32(vget_low_s32(x), vget_low_s32(y)));
    *second = vreinterpretq_u64_s64(vmull_high_s32(x, y));
}

#define LANES(name, T, vector, count, suffix, min, max)                                                               \
    typedef vector v_##name;                                                                                          \
    enum { VN_##name = count };                                                                                       \
    static inline vector v_##name##_load(const uint8_t *at) { return vreinterpretq_##suffix##_u64(vi_load(at)); }     \
    static inline void v_##name##_store(T *to, vector x) { vst1q_##suffix(to, x); }                                   \
    static inline vector v_##name##_set1(T x) { return vdupq_n_##suffix(x); }                                         \
    static inline vector v_##name##_min(vector x, vector m) { return min; }                                           \
    static inline vector v_##name##_max(vector x, vector m) { return max; }

/* There is no minimum of 64-bit integers, and that of floats makes NaN of a signalling one. */
#define PICK(suffix, comparison) vbslq_##suffix(comparison##_##suffix(x, m), x, m)
LANES(i32, int32_t, int32x4_t, 4, s32, vminq_s32(x, m), vmaxq_s32(x, m))
LANES(i64, int64_t, int64x2_t, 2, s64, PICK(s64, vcltq), PICK(s64, vcgtq))
LANES(f32, float, float32x4_t, 4, f32, PICK(f32, vcltq), PICK(f32, vcgtq))
LANES(f64, double, float64x2_t, 2, f64, PICK(f64, vcltq), PICK(f64, vcgtq))
LANES(u16, uint16_t, uint16x8_t, 8, u16, vminq_u16(x, m), vmaxq_u16(x, m))
LANES(u32, uint32_t, uint32x4_t, 4, u32, vminq_u32(x, m), vmaxq_u32(x, m))
#define vreinterpretq_u64_u64(x) (x)
LANES(u8, uint8_t, uint8x16_t, 16, u8, vminq_u8(x, m), vmaxq_u8(x, m))
LANES(u64, uint64_t, uint64x2_t, 2, u64, PICK(u64, vcltq), PICK(u64, vcgtq))

/* A comparison gives all ones for true: minus that is 1. NaN are what does not equal itself. */
#define v_f32_count_nan(count, x)                                                                                     \
    vreinterpretq_u64_u32(vsubq_u32(vreinterpretq_u32_u64(count), vmvnq_u32(vceqq_f32(x, x))))
#define v_f64_count_nan(count, x)                                                                                     \
    vsubq_u64(count, vreinterpretq_u64_u32(vmvnq_u32(vreinterpretq_u32_u64(vceqq_f64(x, x)))))

#include "simd-f32.inc"
#include "simd-all.inc"
