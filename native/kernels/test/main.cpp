// kernels-test CASE: exits with 0 when it passes.
#include "support.h"

void exact_sums();
void rounding();
void reference();
void bounds();
void special_values();
void histogram_edges();
void threads();
void divisions();
void small_jobs();
void cancel();
void arguments();
void mismatch();
void guard_pages();
void truncated_file();
void shrinking_file();
void large_input();
void float_environment();

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)();
    } cases[] = {
        { "exact-sums", exact_sums },
        { "rounding", rounding },
        { "reference", reference },
        { "bounds", bounds },
        { "special-values", special_values },
        { "histogram-edges", histogram_edges },
        { "threads", threads },
        { "divisions", divisions },
        { "small-jobs", small_jobs },
        { "cancel", cancel },
        { "arguments", arguments },
        { "mismatch", mismatch },
        { "guard-pages", guard_pages },
        { "truncated-file", truncated_file },
        { "shrinking-file", shrinking_file },
        { "large-input", large_input },
        { "float-environment", float_environment },
    };
    for (const auto &one : cases) {
        if (argc == 2 && std::strcmp(argv[1], one.name) == 0) {
            one.run();
            return 0;
        }
    }
    std::fprintf(stderr, "usage: kernels-test CASE\n");
    return 2;
}
