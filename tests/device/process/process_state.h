/* What a process has that a library might take over. */
#ifndef MD_TESTS_DEVICE_PROCESS_STATE_H
#define MD_TESTS_DEVICE_PROCESS_STATE_H

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>

enum { PROCESS_SIGNALS = 65, PROCESS_LIMITS = 16, PROCESS_DESCRIPTORS = 1024 };

typedef struct process_state {
    struct sigaction action[PROCESS_SIGNALS];
    sigset_t mask;
    stack_t stack;
    struct itimerval timer[3];
    struct rlimit limit[PROCESS_LIMITS];
    mode_t mask_of_files;
    char folder[4096], name[32], locale[1024];
    uint64_t environment; /* digest */
    unsigned float_mode;
    cpu_set_t affinity;
    int priority, policy, dumpable, death_signal;
    int descriptor[PROCESS_DESCRIPTORS]; /* flags of F_GETFD; -1: none */
    int n_threads, n_threads_with_signals; /* threads besides this one that a signal may reach */
    char one_with_signals[32]; /* the name of one of them */
} process_state;

typedef enum process_phase {
    PROCESS_LIVES, /* new descriptors must be close-on-exec, new threads must block all signals */
    PROCESS_KEPT, /* the context has ended; what a driver keeps may stay, and the same holds for it */
    PROCESS_ENDED /* no new ones */
} process_phase;

void process_state_take(process_state *out);
/** Fails with the name of what differs. */
void process_state_equal(const process_state *before, const process_state *now, process_phase phase);
/** Rounding, flushing and traps of this thread, without the flags that arithmetic sets. */
unsigned process_float_mode(void);
/** Sets flushing of denormals in this thread, where that is known. */
void process_flush_denormals(void);

#endif
