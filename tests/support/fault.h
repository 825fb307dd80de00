/* Part of every test program that uses CMocka (tests/meson.build). Makes allocations fail on purpose: malloc, calloc,
 * realloc, aligned_alloc, strdup and strndup of what the program links statically are counted and, when asked, refused.
 * What writes beyond the end of an allocation ends the program when the memory is freed. Of the first 12,288, and of
 * the first 4,096 pieces of arenas, also what reads beyond the end, and what reads or writes memory that was freed,
 * ends it at once (SIGSEGV). A program that passed fails at its end if memory is left. */
#ifndef MD_TESTS_SUPPORT_FAULT_H
#define MD_TESTS_SUPPORT_FAULT_H
#include <stddef.h>
#include <stdint.h>
/** The n-th allocation from now (1 is the next) and all after it fail; 0: none fails. */
void fault_after(int64_t n);
/** Only the n-th allocation from now fails: what goes on after it may look whole. */
void fault_once(int64_t n);
/** Both ways by turns, for loops over all allocations: the n-th and all after it (is_once 0), or it alone (1). */
static inline void fault_at(int64_t n, int is_once)
{
    if (is_once)
        fault_once(n);
    else
        fault_after(n);
}
/** Whether pieces of arenas (md_arena_alloc) count as allocations too; they do not at first. */
void fault_in_arenas(int counts);
/** Whether an allocation was refused since the last fault_after or fault_once. */
int fault_happened(void);
/** Allocations that were not freed yet, of what the program links statically; 0 under a sanitizer, which sees more. */
int64_t fault_living(void);
/** This program may end while memory is in use. */
void fault_may_leave_memory(void);
/** Bytes asked for since the last fault_after, without ends of strings. */
size_t fault_bytes(void);
#endif
