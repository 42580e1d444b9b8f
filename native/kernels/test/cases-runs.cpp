// Runs: threads, divisions, many at once, cancellation, and what is refused.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "support.h"

namespace {

struct Ended {
    std::mutex mutex;
    std::condition_variable changed;
    int count = 0;
    ck_status status = CK_OK;

    static void done(void *context, ck_status status) {
        auto &ended = *static_cast<Ended *>(context);
        const std::lock_guard<std::mutex> lock(ended.mutex);
        ended.status = status;
        ended.count++;
        ended.changed.notify_all();
    }

    void wait_for(int wanted) {
        std::unique_lock<std::mutex> lock(mutex);
        const bool in_time =
            changed.wait_for(lock, std::chrono::seconds(60), [this, wanted] { return count >= wanted; });
        CHECK(in_time, "%d of %d ended", count, wanted);
    }
};

} // namespace

void threads() {
    Random random(31);
    const size_t bytes = 3 * CK_BLOCK_BYTES + 24;
    std::vector<uint8_t> a(bytes + 1), b(bytes + 1);
    for (const ck_call &call : all_calls(CK_ISA_BEST)) {
        const size_t n = bytes / ck_element_bytes(call.type);
        const bool rounds = is_float(call.type) && (call.kernel == CK_SUM || call.kernel == CK_DOT_PRODUCT);
        const Pattern pattern = rounds ? WIDE : ANY_BITS;
        fill(random, call.type, pattern, a.data() + 1, n);
        fill(random, call.type, pattern, b.data() + 1, n);
        const ck_input input = input_of(call, a.data() + 1, b.data() + 1, n, 4096);
        const Partial one = run(call, input);
        for (uint32_t threads : { 2u, 3u, 64u }) {
            ck_call several = call;
            several.threads = threads;
            const Partial other = run(several, input);
            CHECK(are_equal(*one, *other), "%s with %u threads", describe(call).c_str(), threads);
        }
    }
}

// Cut at multiples of a block all partial results combine to the very one of the whole; cut anywhere, all but sums of
// floats do, and those stay within their bound.
void divisions() {
    Random random(32);
    const uint64_t position = 3 * CK_BLOCK_BYTES / 4; // of the whole in its file
    const size_t bytes = 4 * CK_BLOCK_BYTES + 40;
    std::vector<uint8_t> a(bytes), b(bytes);
    for (const ck_call &call : all_calls(CK_ISA_BEST)) {
        const size_t width = ck_element_bytes(call.type);
        const bool rounds = is_float(call.type) && (call.kernel == CK_SUM || call.kernel == CK_DOT_PRODUCT);
        for (const Pattern pattern : { ANY_BITS, CANCELLING }) {
            if (pattern != ANY_BITS && !rounds) {
                continue;
            }
            fill(random, call.type, pattern, a.data(), bytes / width);
            fill(random, call.type, pattern, b.data(), bytes / width);
            const Partial whole = run(call, input_of(call, a.data(), b.data(), bytes / width, position));
            for (int round = 0; round < 6; round++) {
                const bool at_blocks = round < 3;
                std::vector<Partial> parts;
                for (size_t from = 0; from < bytes;) {
                    size_t to = from + width * (1 + random.below(2 * CK_BLOCK_BYTES / width));
                    if (at_blocks) {
                        to = (position + to) / CK_BLOCK_BYTES * CK_BLOCK_BYTES + CK_BLOCK_BYTES - position;
                    }
                    to = to < bytes ? to : bytes;
                    parts.push_back(
                        run(call, input_of(call, a.data() + from, b.data() + from, (to - from) / width, position + from)));
                    from = to;
                }
                // In any order.
                for (size_t i = parts.size(); i > 1; i--) {
                    std::swap(parts[i - 1], parts[random.below(i)]);
                }
                const Partial together(ck_partial_new(&call));
                for (const Partial &part : parts) {
                    CHECK(ck_partial_combine(together.get(), part.get()) == CK_OK, "%s", describe(call).c_str());
                }
                if (at_blocks || !rounds) {
                    CHECK(are_equal(*whole, *together), "%s in %zu parts", describe(call).c_str(), parts.size());
                } else {
                    const double x = ck_partial_float(whole.get());
                    const double y = ck_partial_float(together.get());
                    CHECK(whole->nan == together->nan && (std::isnan(x) ? std::isnan(y) : true), "%s: %a and %a",
                          describe(call).c_str(), x, y);
                    if (pattern == CANCELLING && call.kernel == CK_SUM) {
                        // Large ones cancel to a rest that both must have.
                        CHECK(x == y || std::fabs(x - y) <= std::fabs(x) * 0x1p-20, "%s: %a and %a",
                              describe(call).c_str(), x, y);
                    }
                }
            }
        }
    }
}

void small_jobs() {
    Random random(33);
    const int jobs = 2000;
    std::vector<uint8_t> a(8 * jobs);
    fill(random, CK_I64, ANY_BITS, a.data(), jobs);
    const ck_call call = { CK_SUM, CK_I64, CK_ISA_BEST, 3, 0, 0, 0 };
    const Partial whole = run(call, input_of(call, a.data(), nullptr, jobs));
    Ended ended;
    std::vector<Partial> parts;
    std::vector<ck_job *> started;
    for (int i = 0; i < jobs; i++) {
        parts.emplace_back(ck_partial_new(&call));
        const ck_input input = input_of(call, a.data() + 8 * i, nullptr, 1);
        ck_status status;
        started.push_back(ck_job_start(&call, &input, parts.back().get(), Ended::done, &ended, &status));
        CHECK(started.back() != nullptr, "%s", ck_status_text(status));
    }
    ended.wait_for(jobs);
    for (int i = 1; i < jobs; i++) {
        ck_partial_combine(parts[0].get(), parts[i].get());
    }
    CHECK(are_equal(*whole, *parts[0]), "%d jobs", jobs);
    for (ck_job *job : started) {
        CHECK(ck_job_bytes_done(job) == 8, "a job of 8 bytes");
        ck_job_release(job);
    }
}

void cancel() {
    // So large that it cannot be done before it is cancelled: the same page, over and over, is not needed for that.
    const size_t bytes = 16 * CK_BLOCK_BYTES;
    const std::vector<uint8_t> a(bytes, 1);
    ck_call call = { CK_SUM, CK_F32, CK_ISA_SCALAR, 2, 0, 0, 0 };
    const ck_input input = input_of(call, a.data(), nullptr, bytes / 4);
    int cancelled = 0;
    for (int round = 0; round < 20; round++) {
        const Partial partial(ck_partial_new(&call));
        Ended ended;
        ck_status status;
        ck_job *const job = ck_job_start(&call, &input, partial.get(), Ended::done, &ended, &status);
        CHECK(job != nullptr, "%s", ck_status_text(status));
        ck_job_cancel(job);
        ck_job_cancel(job);
        ended.wait_for(1);
        CHECK(ended.status == CK_CANCELLED || ended.status == CK_OK, "%s", ck_status_text(ended.status));
        if (ended.status == CK_CANCELLED) {
            cancelled++;
            CHECK(ck_job_bytes_done(job) < bytes, "all was done");
        }
        ck_job_release(job);
    }
    CHECK(cancelled > 15, "%d of 20", cancelled);
}

void arguments() {
    const ck_call good = { CK_HISTOGRAM, CK_F64, CK_ISA_BEST, 1, 10, 0.0, 1.0 };
    const uint8_t bytes[64] = {};
    const ck_input one = { bytes, nullptr, 64, 0 };
    const auto with = [&good](auto change) {
        ck_call call = good;
        change(call);
        return ck_check(&call, nullptr);
    };
    CHECK(ck_check(&good, &one) == CK_OK, "a good call");
    CHECK(with([](ck_call &c) { c.kernel = static_cast<ck_kernel>(CK_KERNELS); }) == CK_BAD_KERNEL, "kernel");
    CHECK(with([](ck_call &c) { c.type = static_cast<ck_type>(CK_TYPES); }) == CK_BAD_TYPE, "type");
    CHECK(with([](ck_call &c) { c.kernel = CK_XOR; }) == CK_BAD_TYPE, "xor of f64");
    CHECK(with([](ck_call &c) { c.isa = static_cast<ck_isa>(CK_ISAS); }) == CK_BAD_ISA, "isa");
    CHECK(with([](ck_call &c) { c.threads = 0; }) == CK_BAD_THREADS, "no threads");
    CHECK(with([](ck_call &c) { c.threads = CK_MAX_THREADS + 1; }) == CK_BAD_THREADS, "threads");
    CHECK(with([](ck_call &c) { c.bins = 0; }) == CK_BAD_BINS, "no bins");
    CHECK(with([](ck_call &c) { c.bins = CK_MAX_BINS + 1; }) == CK_BAD_BINS, "bins");
    CHECK(with([](ck_call &c) { c.low = 1.0; }) == CK_BAD_BINS, "low and high");
    CHECK(with([](ck_call &c) { c.low = NAN; }) == CK_BAD_BINS, "NaN");
    CHECK(with([](ck_call &c) { c.high = INFINITY; }) == CK_BAD_BINS, "infinity");
    CHECK(with([](ck_call &c) { c.low = -1e308, c.high = 1e308; }) == CK_BAD_BINS, "a distance beyond doubles");
    CHECK(with([](ck_call &c) { c.low = 1.0, c.high = 1.0 + 1e-15; }) == CK_BAD_BINS, "narrow bins");
    CHECK(with([](ck_call &c) { c.type = CK_U8, c.high = 256.0; }) == CK_OK, "all of u8");
    CHECK(with([](ck_call &c) { c.type = CK_U8, c.high = 257.0; }) == CK_BAD_BINS, "beyond u8");
    CHECK(with([](ck_call &c) { c.type = CK_U8, c.low = -1.0; }) == CK_BAD_BINS, "below u8");
    CHECK(with([](ck_call &c) { c.type = CK_I32, c.high = 1.5; }) == CK_BAD_BINS, "half an integer");

    const ck_input nothing = { nullptr, nullptr, 0, 0 };
    const ck_input nowhere = { nullptr, nullptr, 8, 0 };
    const ck_input ragged = { bytes, nullptr, 63, 0 };
    const ck_input two = { bytes, bytes, 64, 0 };
    CHECK(ck_check(&good, &nothing) == CK_OK, "nothing");
    CHECK(ck_check(&good, &nowhere) == CK_BAD_INPUT, "nowhere");
    CHECK(ck_check(&good, &ragged) == CK_BAD_LENGTH, "ragged");
    CHECK(ck_check(&good, &two) == CK_BAD_INPUT, "two for one");
    const ck_call dot = { CK_DOT_PRODUCT, CK_F64, CK_ISA_BEST, 1, 0, 0, 0 };
    CHECK(ck_check(&dot, &one) == CK_BAD_INPUT, "one for two");
    CHECK(ck_check(&dot, &two) == CK_OK, "two for two");
    for (int status = CK_OK; status <= CK_MISMATCH; status++) {
        CHECK(std::strlen(ck_status_text(static_cast<ck_status>(status))) > 3, "status %d has no words", status);
    }
}

void mismatch() {
    const ck_call sum = { CK_SUM, CK_F64, CK_ISA_BEST, 1, 0, 0, 0 };
    ck_call other = sum;
    const Partial partial(ck_partial_new(&sum));
    const auto refused = [&partial](const ck_call &call) {
        const Partial from(ck_partial_new(&call));
        ck_status status;
        const uint8_t bytes[8] = {};
        const ck_input input = { bytes, nullptr, 8, 0 };
        return ck_partial_combine(partial.get(), from.get()) == CK_MISMATCH &&
               ck_job_start(&call, &input, partial.get(), Ended::done, nullptr, &status) == nullptr &&
               status == CK_MISMATCH;
    };
    other.type = CK_F32;
    CHECK(refused(other), "type");
    other = sum;
    other.kernel = CK_MIN;
    CHECK(refused(other), "kernel");

    const ck_call bins = { CK_HISTOGRAM, CK_U8, CK_ISA_BEST, 1, 4, 0, 100 };
    const Partial histogram(ck_partial_new(&bins));
    for (const ck_call &call : { ck_call{ CK_HISTOGRAM, CK_U8, CK_ISA_BEST, 1, 5, 0, 100 },
                                 ck_call{ CK_HISTOGRAM, CK_U8, CK_ISA_BEST, 1, 4, 1, 100 },
                                 ck_call{ CK_HISTOGRAM, CK_U8, CK_ISA_BEST, 1, 4, 0, 101 } }) {
        const Partial from(ck_partial_new(&call));
        const ck_input nothing = { nullptr, nullptr, 0, 0 };
        ck_status status;
        CHECK(ck_partial_combine(histogram.get(), from.get()) == CK_MISMATCH, "other bins");
        CHECK(ck_job_start(&call, &nothing, histogram.get(), Ended::done, nullptr, &status) == nullptr &&
                  status == CK_MISMATCH,
              "a run into other bins");
    }
}
