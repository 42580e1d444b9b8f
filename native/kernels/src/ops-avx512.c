/* Only what it is faster at on data larger than the cache; docs/kernels.md has the figures. */
#include <immintrin.h>
#include <stdint.h>

#define prefetch(at) _mm_prefetch((const char *) (at), _MM_HINT_T0)

typedef __m512d vd;
enum { VD = 8 };
#define vd_zero _mm512_setzero_pd
#define vd_store _mm512_storeu_pd
#define vd_add _mm512_add_pd
#define vd_sub _mm512_sub_pd
#define vd_mul _mm512_mul_pd
#define vd_add_too(a, b) _mm512_fmadd_pd(a, _mm512_set1_pd(1.0), b)
#define vd_sub_too(a, b) _mm512_fmsub_pd(a, _mm512_set1_pd(1.0), b)

static inline void vd_load_f32(const uint8_t *at, vd *low, vd *high) {
    *low = _mm512_cvtps_pd(_mm256_loadu_ps((const float *) (const void *) at));
    *high = _mm512_cvtps_pd(_mm256_loadu_ps((const float *) (const void *) (at + 32)));
}

#include "simd-f32.inc"

void ck_avx512_sum_f32(const uint8_t *a, size_t n, ck_lanes *lanes) { sum_f32(a, n, lanes); }
void ck_avx512_dot_f32(const uint8_t *a, const uint8_t *b, size_t n, ck_lanes *lanes) { dot_f32(a, b, n, lanes); }
