/* Refuses compiled GPU kernels that spill, use a stack, or lose performance. */
#include "device/nvrtc/nvrtc.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Only the log of ptxas has the spilled bytes: "0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads". */
static int64_t count_spills(const char *log)
{
    static const char words[] = " bytes spill stores";
    int64_t most = 0;
    for (const char *at = log; (at = strstr(at, words)) != NULL; at += sizeof words - 1) {
        const char *digit = at;
        while (digit > log && digit[-1] >= '0' && digit[-1] <= '9')
            digit--;
        most = MD_MAX(most, strtoll(digit, NULL, 10));
    }
    return most;
}

/* Finds ptxas's warning that it ignores a request of the text, such as setmaxnreg without launch bounds. */
static const char *find_loss(const char *log)
{
    const char *at = strstr(log, "Potential Performance Loss");
    if (!at)
        at = strstr(log, "(C75");
    while (at && at > log && at[-1] != '\n')
        at--;
    return at;
}

md_status md_dev_nvrtc_check(md_dev_cubin *out, const void *binary, size_t n_bytes, const char *log, const char *text,
                             const char *entry)
{
    md_dev_cubin facts;
    MD_TRY(md_dev_cubin_read(&facts, binary, n_bytes, entry));
    const char *loss = find_loss(log);
    if (loss)
        return md_fail(MD_COMPILE, "kernel '%s': %.*s", facts.kernel, (int)MD_MIN(strcspn(loss, "\n"), (size_t)300),
                       loss);
    int64_t n_spilled = count_spills(log);
    bool is_allowed = strstr(text, "MD_ALLOW_STACK") != NULL;
    if (!is_allowed && (facts.frame_bytes > 0 || n_spilled > 0))
        return md_fail(
            MD_COMPILE,
            "kernel '%s' does not fit the registers: %d of them, a stack frame of %d bytes, %lld bytes spilled",
            facts.kernel, (int)facts.registers, (int)facts.frame_bytes, (long long)n_spilled);
    if (out)
        *out = facts;
    return MD_OK;
}
