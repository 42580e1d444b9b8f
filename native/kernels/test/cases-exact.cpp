// Sums without rounding, against another way to make them.
#include <algorithm>

#include "exact.h"
#include "support.h"

namespace {

// The exact sum as doubles that do not overlap, smallest first (Shewchuk 1997), rounded once at the end.
class Expansion {
public:
    void add(double x) {
        size_t kept = 0;
        for (double y : parts_) {
            if (std::fabs(x) < std::fabs(y)) {
                std::swap(x, y);
            }
            const double high = x + y;
            const double low = y - (high - x);
            if (low != 0) {
                parts_[kept++] = low;
            }
            x = high;
        }
        parts_.resize(kept);
        parts_.push_back(x);
    }

    double value() const {
        double high = 0;
        double low = 0;
        size_t n = parts_.size();
        while (n > 0 && low == 0) {
            const double x = high;
            const double y = parts_[--n];
            high = x + y;
            low = y - (high - x);
        }
        // A tie that the parts below it break.
        if (n > 0 && ((low < 0) == (parts_[n - 1] < 0))) {
            const double y = low * 2;
            const double x = high + y;
            if (y == x - high) {
                high = x;
            }
        }
        return high;
    }

private:
    std::vector<double> parts_;
};

double any_finite(Random &random) {
    // Large sums must not overflow in the other way.
    return std::ldexp(moderate(random), static_cast<int>(random.below(1500)) - 1074);
}

} // namespace

void exact_sums() {
    Random random(11);
    for (int round = 0; round < 500; round++) {
        Expansion expected;
        ck_exact whole{}, parts[3] = {};
        const size_t n = random.below(200);
        for (size_t i = 0; i < n; i++) {
            const double x = any_finite(random);
            expected.add(x);
            ck_exact_add(&whole, x);
            ck_exact_add(&parts[random.below(3)], x);
        }
        const double value = ck_exact_value(&whole);
        CHECK(value == expected.value(), "round %d: %a instead of %a", round, value, expected.value());
        ck_exact_merge(&parts[0], &parts[1]);
        ck_exact_merge(&parts[2], &parts[0]);
        CHECK(std::memcmp(&parts[2], &whole, sizeof whole) == 0, "round %d: parts differ", round);
    }
}

void rounding() {
    const double most = std::numeric_limits<double>::max();
    const double least = std::numeric_limits<double>::denorm_min();
    const struct {
        std::vector<double> terms;
        double value;
    } cases[] = {
        { {}, 0.0 },
        { { 1.0, -1.0 }, 0.0 },
        { { least }, least },
        { { -least, 3 * least }, 2 * least },
        { { most }, most },
        { { most, most }, INFINITY },
        { { -most, -most }, -INFINITY },
        { { most, most, -most }, most },
        { { 0x1p53, 1.0 }, 0x1p53 },                     // a tie, to even
        { { 0x1p53, 1.0, least }, 0x1p53 + 2 },          // just above it
        { { 0x1p53, 2.0, 1.0 }, 0x1p53 + 4 },            // a tie, to even
        { { 0x1p53, 2.0, 1.0, -least }, 0x1p53 + 2 },    // just below it
        { { most, 0x1p970 }, INFINITY },                 // half a step beyond the largest
        { { most, 0x1p970, -least }, most },
        { { 0x1p-1022, -least }, 0x1p-1022 - least },
        { { 1e308, 1.0, -1e308 }, 1.0 },
    };
    for (const auto &one : cases) {
        ck_exact sum{};
        for (double term : one.terms) {
            ck_exact_add(&sum, term);
        }
        CHECK(ck_exact_value(&sum) == one.value, "%a instead of %a", ck_exact_value(&sum), one.value);
    }
}
