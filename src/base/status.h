/* Status codes with one message per thread. The function that detects an error calls md_fail; callers pass the code
 * up. */
#ifndef MD_BASE_STATUS_H
#define MD_BASE_STATUS_H

#include <md/md.h>

/** Sets the thread's message (no newline, cut at 1 KiB, no allocation) and returns `code`. */
md_status md_fail(md_status code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/** Sets a fixed message and returns OUT_OF_MEMORY. */
md_status md_fail_memory(void);
/** Appends to the thread's message and returns `code`: for a caller that knows the op, the stage or the file. */
md_status md_fail_more(md_status code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/** Call it before a function of the user's: that may fail without a message, and then an older one must not be quoted.
 */
char md_hide_message(void);
/** Call it after that function. Where it failed and gave no message, sets one with `who` in it ("the callback");
 * returns its status. */
md_status md_show_message(char hidden, md_status status, const char *who);

/** Returns the status of a failed call. */
#define MD_TRY(call)                                                                                                   \
    do {                                                                                                               \
        md_status md_try_ = (call);                                                                                    \
        if (md_try_ != MD_OK)                                                                                          \
            return md_try_;                                                                                            \
    } while (0)

#define MD_COUNT(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))
#define MD_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MD_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
