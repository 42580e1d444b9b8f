// Pages that must not be touched, and files that become shorter.
#include "support.h"

#if defined(_WIN32)

void guard_pages() {}
void truncated_file() {}

#else

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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
}

#endif
