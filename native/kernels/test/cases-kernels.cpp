// Kernels against references of their own.
#include "internal.h"
#include "support.h"

namespace {

__extension__ typedef __int128 Wide;

uint64_t value_bits(ck_type type, const uint8_t *a, size_t i) {
    switch (type) {
    case CK_I32:
        return static_cast<uint64_t>(static_cast<int64_t>(element<int32_t>(a, i)));
    case CK_F32:
    case CK_F64: {
        const double value = float_element(type, a, i);
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    case CK_U8:
        return element<uint8_t>(a, i);
    case CK_U16:
        return element<uint16_t>(a, i);
    case CK_U32:
        return element<uint32_t>(a, i);
    default:
        return element<uint64_t>(a, i);
    }
}

// Of any type, large enough for all of them: integers exactly.
long double value_of(ck_type type, const uint8_t *a, size_t i) {
    if (is_float(type)) {
        return float_element(type, a, i);
    }
    const uint64_t bits = value_bits(type, a, i);
    return is_signed(type) ? static_cast<long double>(static_cast<int64_t>(bits)) : static_cast<long double>(bits);
}

void check_total(const ck_call &call, const ck_partial &partial, const uint8_t *a, const uint8_t *b, size_t n) {
    Wide total = 0;
    for (size_t i = 0; i < n; i++) {
        const auto x = static_cast<int64_t>(value_bits(call.type, a, i));
        total += call.kernel == CK_DOT_PRODUCT ? static_cast<Wide>(x) * static_cast<int64_t>(value_bits(call.type, b, i))
                                               : static_cast<Wide>(x);
    }
    CHECK(partial.total_low == static_cast<uint64_t>(total) && partial.total_high == static_cast<uint64_t>(total >> 64),
          "%s of %zu", describe(call).c_str(), n);
}

void check_extreme(const ck_call &call, const ck_partial &partial, const uint8_t *a, size_t n) {
    uint64_t nan = 0;
    bool found = false;
    long double best = 0;
    for (size_t i = 0; i < n; i++) {
        const long double x = value_of(call.type, a, i);
        if (std::isnan(x)) {
            nan++;
        } else if (!found || (call.kernel == CK_MIN ? x < best : x > best)) {
            best = x;
            found = true;
        }
    }
    CHECK(partial.nan == nan && found == (partial.elements > nan), "%s of %zu", describe(call).c_str(), n);
    if (found) {
        uint8_t bits[8];
        std::memcpy(bits, &partial.value, sizeof bits);
        const ck_type wide = is_float(call.type) ? CK_F64 : is_signed(call.type) ? CK_I64 : CK_U64;
        CHECK(value_of(wide, bits, 0) == best, "%s of %zu", describe(call).c_str(), n);
        CHECK(best != 0 || partial.value == 0, "%s: a zero with a sign", describe(call).c_str());
    }
}

// Whether x has reached the upper edge of a bin.
bool is_beyond(const ck_call &call, long double x, uint32_t bin) {
    if (!is_float(call.type)) {
        // Without any rounding.
        const auto range = static_cast<Wide>(call.high) - static_cast<Wide>(call.low);
        return (static_cast<Wide>(x) - static_cast<Wide>(call.low)) * call.bins >= static_cast<Wide>(bin + 1) * range;
    }
    const volatile double width = (call.high - call.low) / call.bins;
    const volatile double offset = (bin + 1) * width;
    const volatile double edge = call.low + offset;
    return x >= edge;
}

void check_histogram(const ck_call &call, const ck_partial &partial, const uint8_t *a, size_t n) {
    std::vector<uint64_t> counts(call.bins + 3, 0);
    for (size_t i = 0; i < n; i++) {
        const long double x = value_of(call.type, a, i);
        if (std::isnan(x)) {
            counts[call.bins + 2]++;
        } else if (x < call.low || x >= call.high) {
            counts[call.bins + (x >= call.high)]++;
        } else {
            // The first bin whose upper edge is not reached. Edges never fall, so halves need not be looked at.
            uint32_t k = 0;
            for (uint32_t last = call.bins - 1; k < last;) {
                const uint32_t middle = k + (last - k) / 2;
                if (is_beyond(call, x, middle)) {
                    k = middle + 1;
                } else {
                    last = middle;
                }
            }
            counts[k]++;
        }
    }
    for (uint32_t k = 0; k < call.bins + 3; k++) {
        CHECK(partial.counts[k] == counts[k], "%s: slot %u has %llu instead of %llu", describe(call).c_str(), k,
              static_cast<unsigned long long>(partial.counts[k]), static_cast<unsigned long long>(counts[k]));
    }
}

void check_xor(const ck_call &call, const ck_partial &partial, const uint8_t *a, size_t n) {
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        value ^= value_bits(call.type, a, i);
    }
    CHECK(partial.value == value, "%s of %zu", describe(call).c_str(), n);
}

std::vector<ck_isa> with_scalar() {
    std::vector<ck_isa> all = isas();
    all.push_back(CK_ISA_SCALAR);
    return all;
}

} // namespace

// Whatever is exact, in every instruction set.
void reference() {
    Random random(21);
    const size_t lengths[] = { 0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1000, 4097 };
    std::vector<uint8_t> a(8 * 4097 + 16), b(8 * 4097 + 16);
    for (ck_isa isa : with_scalar()) {
        for (const ck_call &call : all_calls(isa)) {
            for (int pattern = 0; pattern < PATTERNS; pattern++) {
                for (size_t n : lengths) {
                    uint8_t *const at_a = a.data() + random.below(9);
                    uint8_t *const at_b = b.data() + random.below(9);
                    fill(random, call.type, static_cast<Pattern>(pattern), at_a, n);
                    fill(random, call.type, static_cast<Pattern>(pattern), at_b, n);
                    const Partial partial = run(call, input_of(call, at_a, at_b, n));
                    CHECK(partial->elements == n, "%s", describe(call).c_str());
                    switch (call.kernel) {
                    case CK_XOR:
                        check_xor(call, *partial, at_a, n);
                        break;
                    case CK_MIN:
                    case CK_MAX:
                        check_extreme(call, *partial, at_a, n);
                        break;
                    case CK_HISTOGRAM:
                        check_histogram(call, *partial, at_a, n);
                        break;
                    default:
                        if (!is_float(call.type)) {
                            check_total(call, *partial, at_a, at_b, n);
                        }
                    }
                }
            }
        }
    }
}

// Sums of floats against the exact ones: |result - S| <= 2^-53 |S| + 2^-74 sum |x|, with products where there are two;
// of those, each may lose half of the smallest double. Other elements have their own path.
void bounds() {
    Random random(22);
    const size_t most = 150000;
    std::vector<uint8_t> a(8 * most), b(8 * most);
    for (ck_isa isa : with_scalar()) {
        for (const ck_call &call : all_calls(isa)) {
            if (!is_float(call.type) || (call.kernel != CK_SUM && call.kernel != CK_DOT_PRODUCT)) {
                continue;
            }
            for (int pattern = 0; pattern < PATTERNS; pattern++) {
                const size_t n = 1 + random.below(most);
                fill(random, call.type, static_cast<Pattern>(pattern), a.data(), n);
                fill(random, call.type, static_cast<Pattern>(pattern), b.data(), n);
                const Partial partial = run(call, input_of(call, a.data(), b.data(), n));
                const Partial exact(ck_partial_new(&call));
                long double sizes = 0;
                for (size_t i = 0; i < n; i++) {
                    const long double x = value_of(call.type, a.data(), i);
                    sizes += std::fabs(call.kernel == CK_SUM ? x : x * value_of(call.type, b.data(), i));
                }
                if (call.kernel == CK_SUM) {
                    ck_partial_add_sum(exact.get(), a.data(), n);
                } else {
                    ck_partial_add_dot(exact.get(), a.data(), b.data(), n);
                }
                CHECK(partial->nan == exact->nan && partial->positive_infinities == exact->positive_infinities &&
                          partial->negative_infinities == exact->negative_infinities,
                      "%s of %zu, pattern %d: other specials", describe(call).c_str(), n, pattern);
                const double value = ck_partial_float(partial.get());
                const double expected = ck_partial_float(exact.get());
                const long double allowed = std::ldexp(std::fabs(static_cast<long double>(expected)), -53) +
                                            std::ldexp(sizes, -74) + (call.kernel == CK_SUM ? 0 : n * 0x1p-1075L);
                const bool same = value == expected || (std::isnan(value) && std::isnan(expected));
                CHECK(same || std::fabs(static_cast<long double>(value) - expected) <= allowed,
                      "%s of %zu, pattern %d: %a instead of %a", describe(call).c_str(), n, pattern, value, expected);
            }
        }
    }
}

// What IEEE 754 would give, and that the finite ones are still summed.
void special_values() {
    const double inf = INFINITY;
    const double most = std::numeric_limits<double>::max();
    const struct {
        std::vector<double> terms;
        double sum;
    } cases[] = {
        { { 1, NAN, 2 }, NAN },
        { { 1, inf, 2 }, inf },
        { { 1, -inf, 2 }, -inf },
        { { inf, -inf }, NAN },
        { { most, most, -most, -most, 5 }, 5 },
        { { 1e300, 1, -1e300 }, 1 },
        { {}, 0 },
        { { -0.0, -0.0 }, 0 },
    };
    for (ck_isa isa : with_scalar()) {
        for (const auto &one : cases) {
            for (size_t repeat : { 1, 7, 40 }) {
                std::vector<double> terms;
                std::vector<double> ones;
                for (size_t i = 0; i < repeat; i++) {
                    terms.insert(terms.end(), one.terms.begin(), one.terms.end());
                }
                ones.resize(terms.size(), 1.0);
                for (const ck_kernel kernel : { CK_SUM, CK_DOT_PRODUCT }) {
                    const ck_call call = { kernel, CK_F64, isa, 1, 0, 0, 0 };
                    const auto *const a = reinterpret_cast<const uint8_t *>(terms.data());
                    const auto *const b = reinterpret_cast<const uint8_t *>(ones.data());
                    const uint8_t none = 0;
                    const Partial partial = run(call, input_of(call, a ? a : &none, b ? b : &none, terms.size()));
                    const double value = ck_partial_float(partial.get());
                    const double expected = one.sum * static_cast<double>(std::isfinite(one.sum) ? repeat : 1);
                    CHECK(value == expected || (std::isnan(value) && std::isnan(expected)), "%s: %a instead of %a",
                          describe(call).c_str(), value, expected);
                }
            }
        }
    }
    // A signalling NaN is one like others, also for min and max.
    const uint64_t signalling = UINT64_C(0x7ff4000000000000);
    for (ck_isa isa : with_scalar()) {
        std::vector<double> elements(64, 3.0);
        elements[5] = -7.0;
        std::memcpy(&elements[21], &signalling, sizeof signalling);
        const ck_call call = { CK_MIN, CK_F64, isa, 1, 0, 0, 0 };
        const Partial partial = run(call, input_of(call, reinterpret_cast<uint8_t *>(elements.data()), nullptr, 64));
        double smallest;
        std::memcpy(&smallest, &partial->value, sizeof smallest);
        CHECK(partial->nan == 1 && smallest == -7.0, "%s: %a", describe(call).c_str(), smallest);
    }
}

// Elements on the edges, just below them, and at the ends of each type.
void histogram_edges() {
    const struct {
        ck_type type;
        uint32_t bins;
        double low, high;
    } cases[] = {
        { CK_F64, 7, -1.0, 1.0 },
        { CK_F64, 4096, 0.1, 0.3 },
        { CK_F64, 65536, -1e300, 1e300 },
        { CK_F64, 1000, 1e15, 1e15 + 4000 },
        { CK_F32, 10, 0.0, 1.0 },
        { CK_U8, 256, 0.0, 256.0 },
        { CK_U8, 255, 0.0, 256.0 },
        { CK_U8, 1000, 10.0, 20.0 },
        { CK_U16, 65536, 0.0, 65536.0 },
        { CK_I32, 9, -2147483648.0, 2147483648.0 },
        { CK_U32, 65535, 0.0, 4294967296.0 },
        { CK_I64, 11, -9223372036854775808.0, 9223372036854775808.0 },
        { CK_U64, 65536, 0.0, 18446744073709551616.0 },
        { CK_I64, 4096, -4096.0, 4096.0 },
        { CK_U64, 3, 9007199254740992.0, 9007199254740996.0 },
    };
    Random random(23);
    for (const auto &one : cases) {
        ck_call call = { CK_HISTOGRAM, one.type, CK_ISA_BEST, 1, one.bins, one.low, one.high };
        const size_t width = ck_element_bytes(one.type);
        const size_t n = 4 * 300;
        std::vector<uint8_t> a(n * width);
        for (size_t i = 0; i < n; i++) {
            const auto k = static_cast<double>(random.below(one.bins + 1));
            const double edge = one.low + k * ((one.high - one.low) / one.bins);
            const double near = i % 4 == 0 ? edge : i % 4 == 1 ? std::nextafter(edge, -INFINITY)
                                                               : std::nextafter(edge, INFINITY);
            if (one.type == CK_F64) {
                std::memcpy(&a[i * width], &near, width);
            } else if (one.type == CK_F32) {
                const auto narrow = static_cast<float>(near);
                std::memcpy(&a[i * width], &narrow, width);
            } else {
                // The bits of the type, of an integer beside the edge; at its ends it wraps.
                const bool beyond = edge >= 0x1p63;
                const uint64_t whole = beyond ? static_cast<uint64_t>(edge - 0x1p63) + (UINT64_C(1) << 63)
                                              : static_cast<uint64_t>(static_cast<int64_t>(std::ceil(edge)));
                const uint64_t bits = whole + i % 4 - 1;
                std::memcpy(&a[i * width], &bits, width);
            }
        }
        const Partial partial = run(call, input_of(call, a.data(), nullptr, n));
        check_histogram(call, *partial, a.data(), n);
    }
}
