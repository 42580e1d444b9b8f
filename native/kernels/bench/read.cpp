// kernels-read MEGABYTES: how fast this machine reads memory, in the manner of STREAM. For each line "THREADS PASSES"
// on standard input, one line with the seconds that each pass over all of it took.
#include <algorithm>
#include <condition_variable>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

typedef uint64_t Vector __attribute__((vector_size(64)));

// All that a pass does: load, and take note of it, so that no load can be left out.
uint64_t read(const char *at, size_t bytes) {
    Vector taken[4] = {};
    for (size_t i = 0; i + sizeof taken <= bytes; i += sizeof taken) {
        for (size_t k = 0; k < 4; k++) {
            Vector value;
            std::memcpy(&value, at + i + k * sizeof value, sizeof value);
            taken[k] |= value;
        }
    }
    const Vector all = (taken[0] | taken[1]) | (taken[2] | taken[3]);
    uint64_t bits = 0;
    for (size_t k = 0; k < 8; k++) {
        bits |= all[k];
    }
    return bits;
}

volatile uint64_t sink;

double pass(const char *at, size_t bytes, unsigned threads) {
    const size_t share = bytes / threads / 4096 * 4096;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; i++) {
        others.emplace_back([=] { sink = read(at + i * share, share); });
    }
    sink = read(at, bytes - (threads - 1) * share);
    for (std::thread &other : others) {
        other.join();
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

int main(int argc, char **argv) {
    const size_t bytes = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 512) << 20;
    char *const at = static_cast<char *>(std::aligned_alloc(size_t(1) << 21, bytes));
    if (at == nullptr) {
        return 1;
    }
#if defined(__linux__)
    // Large pages, as libraries for arrays have them.
    madvise(at, bytes, MADV_HUGEPAGE);
#endif
    for (size_t i = 0; i < bytes; i++) {
        at[i] = static_cast<char>(i * 31);
    }
    unsigned threads, passes;
    while (std::scanf("%u %u", &threads, &passes) == 2 && threads > 0) {
        for (unsigned i = 0; i < passes; i++) {
            std::printf("%.9f ", pass(at, bytes, threads));
        }
        std::printf("\n");
        std::fflush(stdout);
    }
    return 0;
}
