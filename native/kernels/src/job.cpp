// Runs a call over an input: block by block, on several threads.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "covey-kernels.h"
#include "internal.h"
#include "pool.h"

namespace {

struct PartialDelete {
    void operator()(ck_partial *partial) const { ck_partial_delete(partial); }
};
using Partial = std::unique_ptr<ck_partial, PartialDelete>;

struct EdgesDelete {
    void operator()(ck_edges *edges) const { ck_edges_delete(edges); }
};

} // namespace

struct ck_job final : ck::Task {
    ck_job(const ck_call &call, const ck_input &input, ck_partial *total, ck_done done, void *context)
        : call_(call), input_(input), total_(total), done_(done), context_(context) {
        ck_ops_of(call.isa, &ops_);
        // Blocks are counted from the whole's beginning; where elements do not begin there, from the nearest element.
        const uint64_t position = input.position - input.position % ck_element_bytes(call.type);
        first_block_ = std::min<uint64_t>(input.bytes, CK_BLOCK_BYTES - position % CK_BLOCK_BYTES);
        blocks_ = input.bytes == 0 ? 0 : 1 + (input.bytes - first_block_ + CK_BLOCK_BYTES - 1) / CK_BLOCK_BYTES;
    }

    ck_status start() {
        if (call_.kernel == CK_HISTOGRAM) {
            edges_.reset(ck_edges_new(&call_));
            if (edges_ == nullptr) {
                return CK_NO_MEMORY;
            }
        }
        const uint64_t threads = std::clamp<uint64_t>(blocks_, 1, call_.threads);
        return ck::submit(*this, static_cast<unsigned>(threads)) ? CK_OK : CK_NO_THREADS;
    }

    void work() override {
        const Partial mine(ck_partial_new(&call_));
        if (mine == nullptr) {
            fail(CK_NO_MEMORY);
            return;
        }
        while (status_.load(std::memory_order_relaxed) == CK_OK) {
            const uint64_t block = next_block_.fetch_add(1, std::memory_order_relaxed);
            if (block >= blocks_) {
                break;
            }
            run_block(block, *mine);
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        ck_partial_combine(total_, mine.get());
    }

    void done() override {
        done_(context_, status_.load());
        release();
    }

    void release() {
        if (references_.fetch_sub(1) == 1) {
            delete this;
        }
    }

    void fail(ck_status status) {
        ck_status expected = CK_OK;
        status_.compare_exchange_strong(expected, status);
    }

    // A cancelled job that has no block left is done.
    void cancel() {
        if (next_block_.load() < blocks_) {
            fail(CK_CANCELLED);
        }
    }

    uint64_t bytes_done() const { return bytes_done_.load(std::memory_order_relaxed); }

private:
    struct Step {
        const ck_job *job;
        ck_partial *partial;
        const uint8_t *a;
        const uint8_t *b;
        size_t bytes;
    };

    void run_block(uint64_t block, ck_partial &partial) {
        const uint64_t from = block == 0 ? 0 : first_block_ + (block - 1) * CK_BLOCK_BYTES;
        const uint64_t to = std::min<uint64_t>(input_.bytes, first_block_ + block * CK_BLOCK_BYTES);
        const auto *const a = static_cast<const uint8_t *>(input_.a) + from;
        const auto *const b = input_.b == nullptr ? nullptr : static_cast<const uint8_t *>(input_.b) + from;
        Step step = { this, &partial, a, b, static_cast<size_t>(to - from) };
        if (ck_guarded(&ck_job::run_step, &step, a, b, step.bytes)) {
            bytes_done_.fetch_add(to - from, std::memory_order_relaxed);
        } else {
            fail(CK_UNREADABLE);
        }
    }

    // May be left in the middle by a jump: owns nothing.
    static void run_step(void *context) {
        const Step &step = *static_cast<Step *>(context);
        const ck_job &job = *step.job;
        const ck_ops &ops = job.ops_;
        ck_partial &partial = *step.partial;
        const size_t n = step.bytes / ck_element_bytes(job.call_.type);
        switch (job.call_.kernel) {
        case CK_SUM:
            if (job.call_.type == CK_I32 || job.call_.type == CK_I64) {
                ck_total total;
                (job.call_.type == CK_I32 ? ops.sum_i32 : ops.sum_i64)(step.a, n, &total);
                ck_partial_add_total(&partial, &total);
            } else {
                ck_lanes lanes;
                (job.call_.type == CK_F32 ? ops.sum_f32 : ops.sum_f64)(step.a, n, &lanes);
                if (!ck_partial_add_lanes(&partial, &lanes)) {
                    ck_partial_add_sum(&partial, step.a, n);
                }
            }
            break;
        case CK_DOT_PRODUCT:
            if (job.call_.type == CK_I32) {
                ck_total total;
                ops.dot_i32(step.a, step.b, n, &total);
                ck_partial_add_total(&partial, &total);
            } else {
                ck_lanes lanes;
                (job.call_.type == CK_F32 ? ops.dot_f32 : ops.dot_f64)(step.a, step.b, n, &lanes);
                if (!ck_partial_add_lanes(&partial, &lanes)) {
                    ck_partial_add_dot(&partial, step.a, step.b, n);
                }
            }
            break;
        case CK_XOR:
            partial.value ^= xor_of(ops, step.a, step.bytes, ck_element_bytes(job.call_.type));
            break;
        case CK_MIN:
        case CK_MAX: {
            ck_extremes extremes;
            ops.extremes[job.call_.type](step.a, n, &extremes);
            ck_partial_add_extremes(&partial, &extremes, n);
            return;
        }
        case CK_HISTOGRAM: {
            const uint64_t nan_before = partial.counts[partial.bins + 2];
            ck_edges_count(job.edges_.get(), step.a, n, partial.counts);
            partial.nan += partial.counts[partial.bins + 2] - nan_before;
            break;
        }
        case CK_KERNELS:
            break;
        }
        partial.elements += n;
    }

    // Words of 64 bits first, which hold whole elements; what they come to is folded to one.
    static uint64_t xor_of(const ck_ops &ops, const uint8_t *a, size_t bytes, size_t element) {
        uint64_t value = ops.xor_words(a, bytes / 8);
        uint64_t rest = 0;
        std::memcpy(&rest, a + bytes / 8 * 8, bytes % 8);
        value ^= rest;
        for (size_t width = 4; width >= element; width /= 2) {
            value ^= value >> (8 * width);
        }
        return element == 8 ? value : value & ((UINT64_C(1) << (8 * element)) - 1);
    }

    const ck_call call_;
    const ck_input input_;
    ck_ops ops_;
    ck_partial *const total_;
    const ck_done done_;
    void *const context_;
    std::unique_ptr<ck_edges, EdgesDelete> edges_;
    uint64_t first_block_;
    uint64_t blocks_;
    std::mutex mutex_;
    std::atomic<uint64_t> next_block_{ 0 };
    std::atomic<uint64_t> bytes_done_{ 0 };
    std::atomic<ck_status> status_{ CK_OK };
    // Who started it, and the run itself.
    std::atomic<int> references_{ 2 };
};

ck_job *ck_job_start(const ck_call *call, const ck_input *input, ck_partial *partial, ck_done done, void *context,
                     ck_status *status) {
    *status = ck_check(call, input);
    const bool has_bins = call->kernel == CK_HISTOGRAM;
    if (*status == CK_OK &&
        (partial->kernel != call->kernel || partial->type != call->type ||
         (has_bins && (partial->bins != call->bins || partial->low != call->low || partial->high != call->high)))) {
        *status = CK_MISMATCH;
    }
    if (*status != CK_OK) {
        return nullptr;
    }
    auto *const job = new (std::nothrow) ck_job(*call, *input, partial, done, context);
    *status = job == nullptr ? CK_NO_MEMORY : job->start();
    if (*status != CK_OK) {
        delete job;
        return nullptr;
    }
    return job;
}

uint64_t ck_job_bytes_done(const ck_job *job) { return job->bytes_done(); }

void ck_job_cancel(ck_job *job) { job->cancel(); }

void ck_job_release(ck_job *job) { job->release(); }

ck_status ck_run(const ck_call *call, const ck_input *input, ck_partial *partial) {
    struct Wait {
        std::mutex mutex;
        std::condition_variable changed;
        bool ended = false;
        ck_status status = CK_OK;
    } wait;
    const ck_done done = [](void *context, ck_status status) {
        auto &waiting = *static_cast<Wait *>(context);
        const std::lock_guard<std::mutex> lock(waiting.mutex);
        waiting.status = status;
        waiting.ended = true;
        waiting.changed.notify_one();
    };
    ck_status status;
    ck_job *const job = ck_job_start(call, input, partial, done, &wait, &status);
    if (job == nullptr) {
        return status;
    }
    std::unique_lock<std::mutex> lock(wait.mutex);
    wait.changed.wait(lock, [&wait] { return wait.ended; });
    lock.unlock();
    ck_job_release(job);
    return wait.status;
}
