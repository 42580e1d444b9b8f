// Threads that wait for work, as many as were ever wanted at once.
#pragma once

namespace ck {

/// Something that several threads do together.
class Task {
public:
    /// Called by up to as many threads as were asked for; returns when nothing is left to do.
    virtual void work() = 0;
    /// Called once, by the last thread, after all have returned from work(). The task may be gone afterwards.
    virtual void done() = 0;

protected:
    ~Task() = default;

private:
    friend class Pool;
    unsigned wanted_ = 0; // threads that may still join
    unsigned active_ = 0; // threads in work()
    Task *next_ = nullptr;
};

/// False: not one thread could be had, and the task was not taken.
bool submit(Task &task, unsigned threads);

} // namespace ck
