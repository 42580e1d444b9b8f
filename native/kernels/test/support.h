// What tests share: seeded inputs, a plain reference, and comparisons that say what differs.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "covey-kernels.h"

#define CHECK(condition, ...)                                                                                         \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            std::fprintf(stderr, "%s:%d: %s\n  ", __FILE__, __LINE__, #condition);                                    \
            std::fprintf(stderr, __VA_ARGS__);                                                                        \
            std::fprintf(stderr, "\n");                                                                               \
            std::exit(1);                                                                                             \
        }                                                                                                             \
    } while (0)

// splitmix64
struct Random {
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed) {}
    uint64_t next() {
        uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
    }
    uint64_t below(uint64_t n) { return next() % n; }
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

struct Delete {
    void operator()(ck_partial *partial) const { ck_partial_delete(partial); }
};
using Partial = std::unique_ptr<ck_partial, Delete>;

inline bool is_float(ck_type type) { return type == CK_F32 || type == CK_F64; }
inline bool is_signed(ck_type type) { return type == CK_I32 || type == CK_I64; }

inline const char *type_name(ck_type type) {
    static const char *const names[] = { "i32", "i64", "f32", "f64", "u8", "u16", "u32", "u64" };
    return names[type];
}
inline const char *kernel_name(ck_kernel kernel) {
    static const char *const names[] = { "sum", "xor", "dot_product", "min", "max", "histogram" };
    return names[kernel];
}
inline std::string describe(const ck_call &call) {
    return std::string(kernel_name(call.kernel)) + " " + type_name(call.type) + " " + ck_isa_name(call.isa);
}

// Every call with a type that its kernel takes; histograms with bins that suit most patterns.
inline std::vector<ck_call> all_calls(ck_isa isa = CK_ISA_SCALAR) {
    std::vector<ck_call> calls;
    for (int kernel = 0; kernel < CK_KERNELS; kernel++) {
        for (int type = 0; type < CK_TYPES; type++) {
            ck_call call{};
            call.kernel = static_cast<ck_kernel>(kernel);
            call.type = static_cast<ck_type>(type);
            call.isa = isa;
            call.threads = 1;
            if (call.kernel == CK_HISTOGRAM) {
                call.bins = 37;
                call.low = is_float(call.type) || is_signed(call.type) ? -1000.0 : 3.0;
                call.high = call.type == CK_U8 ? 250.0 : 2000.0;
            }
            if (ck_check(&call, nullptr) == CK_OK) {
                calls.push_back(call);
            }
        }
    }
    return calls;
}

inline std::vector<ck_isa> isas() {
    std::vector<ck_isa> found;
    for (int isa = CK_ISA_AVX2; isa < CK_ISAS; isa++) {
        if (ck_isa_available(static_cast<ck_isa>(isa))) {
            found.push_back(static_cast<ck_isa>(isa));
        }
    }
    return found;
}

enum Pattern {
    ANY_BITS,   // floats: NaN, infinities and denormals among them
    MODERATE,   // floats of about 1, small integers
    WIDE,       // finite floats of every size
    DENORMAL,   // floats of about the smallest
    CANCELLING, // large ones of both signs, and small ones
    LIMITS,     // the ends of the type, and zeros of both signs
    NOT_NUMBERS,
    PATTERNS
};

inline double moderate(Random &random) { return (random.unit() - 0.5) * 8.0; }

template <class T> T float_of(Random &random, Pattern pattern, size_t i) {
    using Limits = std::numeric_limits<T>;
    switch (pattern) {
    case WIDE: {
        const int range = Limits::max_exponent - 2;
        return static_cast<T>(std::ldexp(moderate(random), static_cast<int>(random.below(2 * range)) - range));
    }
    case DENORMAL:
        return static_cast<T>(moderate(random) * 16.0) * Limits::denorm_min();
    case CANCELLING: {
        // A large one, a small one, and the large one's opposite, anywhere.
        const T large = std::ldexp(static_cast<T>(1 + i % 5), Limits::max_exponent / 2);
        return i % 3 == 0 ? large : i % 3 == 1 ? static_cast<T>(moderate(random)) : -large;
    }
    case LIMITS: {
        const T values[] = { Limits::max(), -Limits::max(), T(0), -T(0), Limits::min(), Limits::denorm_min() };
        return values[random.below(6)];
    }
    case NOT_NUMBERS: {
        const T values[] = { Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), T(1) };
        return values[random.below(5)];
    }
    default:
        return static_cast<T>(moderate(random));
    }
}

template <class T> T integer_of(Random &random, Pattern pattern) {
    switch (pattern) {
    case MODERATE:
        return static_cast<T>(random.below(3000) - (std::numeric_limits<T>::is_signed ? 1000 : 0));
    case LIMITS:
    case CANCELLING:
        return random.below(2) == 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
    default:
        return static_cast<T>(random.next());
    }
}

// n elements at any address.
inline void fill(Random &random, ck_type type, Pattern pattern, uint8_t *to, size_t n) {
    const size_t width = ck_element_bytes(type);
    if (pattern == ANY_BITS) {
        for (size_t i = 0; i < n * width; i += sizeof(uint64_t)) {
            const uint64_t bits = random.next();
            std::memcpy(to + i, &bits, n * width - i < sizeof bits ? n * width - i : sizeof bits);
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = random.next();
        const auto put = [&bits](auto value) { std::memcpy(&bits, &value, sizeof value); };
        switch (type) {
        case CK_F32:
            put(float_of<float>(random, pattern, i));
            break;
        case CK_F64:
            put(float_of<double>(random, pattern, i));
            break;
        case CK_I32:
            put(integer_of<int32_t>(random, pattern));
            break;
        case CK_I64:
            put(integer_of<int64_t>(random, pattern));
            break;
        case CK_U8:
            put(integer_of<uint8_t>(random, pattern));
            break;
        case CK_U16:
            put(integer_of<uint16_t>(random, pattern));
            break;
        case CK_U32:
            put(integer_of<uint32_t>(random, pattern));
            break;
        default:
            put(integer_of<uint64_t>(random, pattern));
            break;
        }
        std::memcpy(to + i * width, &bits, width);
    }
}

template <class T> T element(const void *at, size_t i) {
    T value;
    std::memcpy(&value, static_cast<const uint8_t *>(at) + i * sizeof(T), sizeof value);
    return value;
}

inline double float_element(ck_type type, const void *at, size_t i) {
    return type == CK_F32 ? static_cast<double>(element<float>(at, i)) : element<double>(at, i);
}

inline ck_input input_of(const ck_call &call, const uint8_t *a, const uint8_t *b, size_t n, uint64_t position = 0) {
    return { a, call.kernel == CK_DOT_PRODUCT ? b : nullptr, n * ck_element_bytes(call.type), position };
}

inline Partial run(const ck_call &call, const ck_input &input) {
    Partial partial(ck_partial_new(&call));
    CHECK(partial != nullptr, "no memory");
    const ck_status status = ck_run(&call, &input, partial.get());
    CHECK(status == CK_OK, "%s: %s", describe(call).c_str(), ck_status_text(status));
    return partial;
}

// Bit by bit.
inline bool are_equal(const ck_partial &a, const ck_partial &b) {
    return a.kernel == b.kernel && a.type == b.type && a.elements == b.elements && a.total_low == b.total_low &&
           a.total_high == b.total_high && std::memcmp(&a.finite, &b.finite, sizeof a.finite) == 0 && a.nan == b.nan &&
           a.positive_infinities == b.positive_infinities && a.negative_infinities == b.negative_infinities &&
           a.value == b.value && a.bins == b.bins &&
           (a.bins == 0 || std::memcmp(a.counts, b.counts, (a.bins + 3) * sizeof *a.counts) == 0);
}
