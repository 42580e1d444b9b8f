// Pages that must not be touched, files that become shorter, inputs of more than 4 GiB, and how a thread rounds.
#include <cfenv>

#include "internal.h"
#include "support.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Whatever the thread that starts the pool's is set to: sums are rounded as they always are, and denormals count.
void float_environment() {
    Random random(42);
    std::vector<double> a(5000), b(5000, 1.0);
    for (size_t i = 0; i < a.size(); i++) {
        a[i] = float_of<double>(random, i % 2 == 0 ? MODERATE : DENORMAL, i);
    }
    const auto *const at_a = reinterpret_cast<const uint8_t *>(a.data());
    const auto *const at_b = reinterpret_cast<const uint8_t *>(b.data());
    for (const ck_kernel kernel : { CK_SUM, CK_DOT_PRODUCT }) {
        const ck_call call = { kernel, CK_F64, CK_ISA_BEST, 1, 0, 0, 0 };
        std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
        _mm_setcsr(_mm_getcsr() | 0x8040); // results and operands that are denormal become 0
#endif
        const Partial partial = run(call, input_of(call, at_a, at_b, a.size()));
        std::fesetenv(FE_DFL_ENV);
        const Partial expected(ck_partial_new(&call));
        ck_lanes lanes;
        if (kernel == CK_SUM) {
            ck_ops_scalar.sum_f64(at_a, a.size(), &lanes);
        } else {
            ck_ops_scalar.dot_f64(at_a, at_b, a.size(), &lanes);
        }
        ck_partial_add_lanes(expected.get(), &lanes);
        expected->elements = a.size();
        CHECK(are_equal(*partial, *expected), "%s: %a instead of %a", describe(call).c_str(),
              ck_partial_float(partial.get()), ck_partial_float(expected.get()));
    }
}

#if defined(_WIN32)

void guard_pages() {}
void truncated_file() {}
void shrinking_file() {}
void large_input() {}

#else

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

// Inputs that end where memory ends, or begin where it begins.
void guard_pages() {
    Random random(41);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const auto make = [page] {
        void *const at = mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(at != MAP_FAILED, "mmap");
        auto *const bytes = static_cast<uint8_t *>(at);
        CHECK(mprotect(bytes, page, PROT_NONE) == 0 && mprotect(bytes + 3 * page, page, PROT_NONE) == 0, "mprotect");
        return bytes + page;
    };
    uint8_t *const a = make();
    uint8_t *const b = make();
    std::vector<ck_isa> all = isas();
    all.push_back(CK_ISA_SCALAR);
    for (ck_isa isa : all) {
        for (const ck_call &call : all_calls(isa)) {
            const size_t width = ck_element_bytes(call.type);
            for (size_t n = 0; n <= 300 && n * width <= 2 * page; n++) {
                const size_t at = random.below(2) == 0 ? 0 : 2 * page - n * width;
                fill(random, call.type, MODERATE, a + at, n);
                fill(random, call.type, MODERATE, b + at, n);
                run(call, input_of(call, a + at, b + at, n));
            }
        }
    }
}

// A file that became shorter ends the run, not the process.
void truncated_file() {
    char path[] = "/tmp/covey-kernels-XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0, "mkstemp");
    unlink(path);
    const size_t bytes = 4 * CK_BLOCK_BYTES;
    CHECK(ftruncate(file, bytes) == 0, "ftruncate");
    void *const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED, "mmap");
    CHECK(ftruncate(file, 2 * CK_BLOCK_BYTES) == 0, "ftruncate");
    for (ck_call call : all_calls(CK_ISA_BEST)) {
        call.threads = 3;
        const Partial partial(ck_partial_new(&call));
        const auto *const a = static_cast<const uint8_t *>(mapped);
        const ck_input input = input_of(call, a, a, bytes / ck_element_bytes(call.type));
        const ck_status status = ck_run(&call, &input, partial.get());
        CHECK(status == CK_UNREADABLE, "%s: %s", describe(call).c_str(), ck_status_text(status));
        // What is there can still be read, by the same threads.
        const ck_input rest = input_of(call, a, a, CK_BLOCK_BYTES / ck_element_bytes(call.type));
        run(call, rest);
    }
    // What is not ours to catch ends a process as before.
    const pid_t child = fork();
    if (child == 0) {
        const auto *const a = static_cast<const volatile uint8_t *>(mapped);
        _exit(a[bytes - 1]);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "it read what is not there");
    munmap(mapped, bytes);
    close(file);
}

// While it is read, at any moment: either all was read before, or the run is refused.
void shrinking_file() {
    char path[] = "/tmp/covey-kernels-XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0, "mkstemp");
    unlink(path);
    const size_t bytes = 16 * CK_BLOCK_BYTES;
    Random random(43);
    int refused = 0;
    for (int round = 0; round < 30; round++) {
        CHECK(ftruncate(file, 0) == 0 && ftruncate(file, bytes) == 0, "ftruncate");
        void *const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
        CHECK(mapped != MAP_FAILED, "mmap");
        const ck_call call = { round % 2 == 0 ? CK_DOT_PRODUCT : CK_MIN, CK_F32, CK_ISA_BEST, 3, 0, 0, 0 };
        const auto *const a = static_cast<const uint8_t *>(mapped);
        const ck_input input = input_of(call, a, a, bytes / 4);
        const auto delay = std::chrono::microseconds(random.below(4000));
        std::thread other([file, delay] {
            std::this_thread::sleep_for(delay);
            CHECK(ftruncate(file, 4096) == 0, "ftruncate");
        });
        const Partial partial(ck_partial_new(&call));
        const ck_status status = ck_run(&call, &input, partial.get());
        other.join();
        CHECK(status == CK_OK || status == CK_UNREADABLE, "%s", ck_status_text(status));
        CHECK(status == CK_UNREADABLE || partial->elements == bytes / 4, "all, of a part");
        refused += status == CK_UNREADABLE;
        munmap(mapped, bytes);
    }
    close(file);
    CHECK(refused > 0, "never in the middle");
}

// More than 32 bits of bytes, and for the smallest type of elements. Pages that nobody wrote to are one page of zeros.
void large_input() {
    const size_t bytes = (size_t(5) << 30) + 8;
    void *const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED, "mmap");
    auto *const a = static_cast<uint8_t *>(at);
    const size_t places[] = { 3, (size_t(1) << 32) - 1, (size_t(1) << 32) + 1, bytes - 1 };
    uint8_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        a[places[i]] = static_cast<uint8_t>(7 << i);
        value ^= static_cast<uint8_t>(7 << i);
    }
    const ck_call call = { CK_XOR, CK_U8, CK_ISA_BEST, 2, 0, 0, 0 };
    const Partial all = run(call, input_of(call, a, nullptr, bytes));
    CHECK(all->elements == bytes && all->value == value, "%llu of %llu", static_cast<unsigned long long>(all->value),
          static_cast<unsigned long long>(all->elements));
    const ck_call most = { CK_MAX, CK_I32, CK_ISA_BEST, 2, 0, 0, 0 };
    const Partial largest = run(most, input_of(most, a, nullptr, bytes / 4));
    CHECK(largest->elements == bytes / 4 && largest->value == UINT64_C(56) << 24, "the last is the largest: %llu",
          static_cast<unsigned long long>(largest->value));
    munmap(at, bytes);
}

#endif
