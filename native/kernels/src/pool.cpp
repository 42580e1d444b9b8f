#include "pool.h"

#include <cfenv>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "covey-kernels.h"

namespace ck {

class Pool {
public:
    bool submit(Task &task, unsigned threads) {
        std::unique_lock<std::mutex> lock(mutex_);
        task.wanted_ = threads;
        // A thread that cannot be had is not missed as long as there is one.
        while (idle_ < threads + waiting_ && count_ < CK_MAX_THREADS && start()) {
        }
        if (count_ == 0) {
            return false;
        }
        *end_ = &task;
        end_ = &task.next_;
        waiting_ += threads;
        lock.unlock();
        if (threads == 1) {
            changed_.notify_one();
        } else {
            changed_.notify_all();
        }
        return true;
    }

private:
    bool start() {
        try {
            std::thread(&Pool::run, this).detach();
        } catch (const std::system_error &) {
            return false;
        }
        count_++;
        idle_++;
        return true;
    }

    void run() {
        // Rounding and denormals as the standard has them, whatever the starting thread was set to.
        std::fesetenv(FE_DFL_ENV);
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return first_ != nullptr; });
            Task &task = *first_;
            idle_--;
            waiting_--;
            task.active_++;
            if (--task.wanted_ == 0) {
                remove(task);
            }
            lock.unlock();
            task.work();
            lock.lock();
            idle_++;
            // Nothing is left to do: nobody else needs to join.
            if (task.wanted_ > 0) {
                waiting_ -= task.wanted_;
                task.wanted_ = 0;
                remove(task);
            }
            if (--task.active_ == 0) {
                lock.unlock();
                task.done();
                lock.lock();
            }
        }
    }

    void remove(Task &task) {
        Task **at = &first_;
        while (*at != &task) {
            at = &(*at)->next_;
        }
        *at = task.next_;
        task.next_ = nullptr;
        if (end_ == &task.next_) {
            end_ = at;
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    // Tasks that threads may still join.
    Task *first_ = nullptr;
    Task **end_ = &first_;
    unsigned count_ = 0;
    unsigned idle_ = 0;
    unsigned waiting_ = 0; // sum of what tasks want
};

bool submit(Task &task, unsigned threads) {
    // Never destroyed: its threads live as long as the process.
    static Pool &pool = *new Pool;
    return pool.submit(task, threads);
}

} // namespace ck
