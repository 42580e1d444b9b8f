/* With fused multiplication and addition, which came with it. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define OPS ck_ops_avx2

#define prefetch(at) _mm_prefetch((const char *) (at), _MM_HINT_T0)

typedef __m256d vd;
enum { VD = 4 };
#define vd_zero _mm256_setzero_pd
#define vd_load(at) _mm256_loadu_pd((const double *) (const void *) (at))
#define vd_store _mm256_storeu_pd
#define vd_add _mm256_add_pd
#define vd_sub _mm256_sub_pd
#define vd_mul _mm256_mul_pd
#define vd_fmsub _mm256_fmsub_pd
#define vd_add_too(a, b) _mm256_fmadd_pd(a, _mm256_set1_pd(1.0), b)
#define vd_sub_too(a, b) _mm256_fmsub_pd(a, _mm256_set1_pd(1.0), b)

static inline void vd_load_f32(const uint8_t *at, vd *low, vd *high) {
    *low = _mm256_cvtps_pd(_mm_loadu_ps((const float *) (const void *) at));
    *high = _mm256_cvtps_pd(_mm_loadu_ps((const float *) (const void *) (at + 16)));
}

typedef __m256i vi;
enum { VI = 32 };
#define vi_zero _mm256_setzero_si256
#define vi_load(at) _mm256_loadu_si256((const __m256i *) (const void *) (at))
#define vi_store(to, x) _mm256_storeu_si256((__m256i *) (void *) (to), x)
#define vi_xor _mm256_xor_si256
#define vi_add64 _mm256_add_epi64

static inline vi vi_add_i32(vi sum, const uint8_t *at) {
    const vi low = _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *) (const void *) at));
    const vi high = _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *) (const void *) (at + 16)));
    return vi_add64(sum, vi_add64(low, high));
}

static inline vi vi_biased_high(vi x) {
    return _mm256_srli_epi64(vi_xor(x, _mm256_set1_epi64x(INT64_MIN)), 32);
}

static inline void vi_mul_i32(vi a, vi b, vi *even, vi *odd) {
    *even = _mm256_mul_epi32(a, b);
    *odd = _mm256_mul_epi32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
}

#define INTEGERS(name, bits, set1, min, max)                                                                          \
    typedef __m256i v_##name;                                                                                         \
    enum { VN_##name = 256 / bits };                                                                                  \
    static inline vi v_##name##_load(const uint8_t *at) { return vi_load(at); }                                       \
    static inline void v_##name##_store(void *to, vi x) { vi_store(to, x); }                                          \
    static inline vi v_##name##_set1(uint##bits##_t x) { return set1; }                                               \
    static inline vi v_##name##_min(vi x, vi m) { return min; }                                                       \
    static inline vi v_##name##_max(vi x, vi m) { return max; }

/* The larger, by signed comparison of x and m after a change of both. */
static inline vi choose_larger(vi x, vi m, vi bias) {
    const vi larger = _mm256_cmpgt_epi64(vi_xor(x, bias), vi_xor(m, bias));
    return _mm256_blendv_epi8(m, x, larger);
}
static inline vi choose_smaller(vi x, vi m, vi bias) {
    const vi larger = _mm256_cmpgt_epi64(vi_xor(x, bias), vi_xor(m, bias));
    return _mm256_blendv_epi8(x, m, larger);
}
#define SIGN _mm256_set1_epi64x(INT64_MIN)

INTEGERS(i32, 32, _mm256_set1_epi32((int32_t) x), _mm256_min_epi32(x, m), _mm256_max_epi32(x, m))
INTEGERS(i64, 64, _mm256_set1_epi64x((int64_t) x), choose_smaller(x, m, vi_zero()), choose_larger(x, m, vi_zero()))
INTEGERS(u8, 8, _mm256_set1_epi8((char) x), _mm256_min_epu8(x, m), _mm256_max_epu8(x, m))
INTEGERS(u16, 16, _mm256_set1_epi16((short) x), _mm256_min_epu16(x, m), _mm256_max_epu16(x, m))
INTEGERS(u32, 32, _mm256_set1_epi32((int32_t) x), _mm256_min_epu32(x, m), _mm256_max_epu32(x, m))
INTEGERS(u64, 64, _mm256_set1_epi64x((int64_t) x), choose_smaller(x, m, SIGN), choose_larger(x, m, SIGN))

typedef __m256 v_f32;
enum { VN_f32 = 8 };
#define v_f32_load(at) _mm256_loadu_ps((const float *) (const void *) (at))
#define v_f32_store _mm256_storeu_ps
#define v_f32_set1 _mm256_set1_ps
#define v_f32_min _mm256_min_ps
#define v_f32_max _mm256_max_ps
#define v_f32_count_nan(count, x)                                                                                     \
    _mm256_sub_epi32(count, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)))

typedef __m256d v_f64;
enum { VN_f64 = 4 };
#define v_f64_load vd_load
#define v_f64_store _mm256_storeu_pd
#define v_f64_set1 _mm256_set1_pd
#define v_f64_min _mm256_min_pd
#define v_f64_max _mm256_max_pd
#define v_f64_count_nan(count, x)                                                                                     \
    _mm256_sub_epi64(count, _mm256_castpd_si256(_mm256_cmp_pd(x, x, _CMP_UNORD_Q)))

#include "simd-f32.inc"
#include "simd-all.inc"
