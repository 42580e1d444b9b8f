// kernels-fuzz SEED INPUTS: random calls over random inputs, most of them right. Each either is refused, or gives in
// every instruction set, with any number of threads, the very bits of the scalar reference.
#include <vector>

#include "support.h"

namespace {

double any_edge(Random &random, ck_type type) {
    switch (random.below(6)) {
    case 0:
        return element<double>(&random.state, 0); // any bits
    case 1:
        return std::ldexp(moderate(random), static_cast<int>(random.below(2000)) - 1000);
    case 2:
        return static_cast<double>(static_cast<int64_t>(random.next()));
    default:
        return is_float(type) ? moderate(random) * 500 : static_cast<double>(random.below(3000));
    }
}

} // namespace

int main(int argc, char **argv) {
    const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
    const uint64_t inputs = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
    Random random(seed);
    const std::vector<ck_isa> sets = isas();
    const size_t most = CK_BLOCK_BYTES + 4096;
    std::vector<uint8_t> a(most + 64), b(most + 64);
    uint64_t ran = 0;
    for (uint64_t i = 0; i < inputs; i++) {
        ck_call call{};
        call.kernel = static_cast<ck_kernel>(random.below(CK_KERNELS + (random.below(50) == 0)));
        call.type = static_cast<ck_type>(random.below(CK_TYPES + (random.below(50) == 0)));
        call.isa = CK_ISA_SCALAR;
        call.threads = static_cast<uint32_t>(random.below(100) == 0 ? random.next() : 1 + random.below(4));
        if (call.kernel == CK_HISTOGRAM) {
            call.bins = static_cast<uint32_t>(random.below(20) == 0 ? random.below(70000) : 1 + random.below(300));
            call.low = any_edge(random, call.type);
            call.high = any_edge(random, call.type);
            if (call.high < call.low && random.below(4) != 0) {
                std::swap(call.low, call.high);
            }
        }
        if (ck_check(&call, nullptr) != CK_OK) {
            continue;
        }
        const size_t width = ck_element_bytes(call.type);
        // Mostly short ones, sometimes over the end of a block.
        const size_t n = random.below(random.below(1000) == 0 ? most / width : random.below(8) == 0 ? 3000 : 150);
        uint8_t *const at_a = a.data() + random.below(64);
        uint8_t *const at_b = b.data() + random.below(64);
        const auto pattern = static_cast<Pattern>(random.below(PATTERNS));
        fill(random, call.type, pattern, at_a, n);
        fill(random, call.type, random.below(4) == 0 ? ANY_BITS : pattern, at_b, n);
        ck_input input = input_of(call, at_a, at_b, n, random.below(4) == 0 ? random.next() >> 8 : 0);
        if (random.below(50) == 0) {
            input.bytes += random.below(8);
        }
        if (random.below(50) == 0) {
            input.b = random.below(2) == 0 ? nullptr : at_b;
        }
        if (ck_check(&call, &input) != CK_OK) {
            continue;
        }
        input.bytes = n * width;
        const Partial expected = run(call, input);
        for (ck_isa isa : sets) {
            ck_call other = call;
            other.isa = isa;
            const Partial partial = run(other, input);
            CHECK(are_equal(*expected, *partial), "seed %llu, input %llu: %s of %zu differs from scalar",
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(i), describe(other).c_str(), n);
        }
        ran++;
    }
    std::printf("%llu of %llu inputs were right and gave the same everywhere\n", static_cast<unsigned long long>(ran),
                static_cast<unsigned long long>(inputs));
    return ran * 4 > inputs ? 0 : 1;
}
