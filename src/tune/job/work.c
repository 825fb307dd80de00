/* Short questions about a search at work. */
#include "tune/job/work.h"

bool md_tn_is_late(const md_tn_work *w)
{
    return md_tn_now_ns(w->dev) + w->ending_ns >= w->deadline_ns;
}

bool md_tn_is_over(const md_tn_work *w)
{
    return md_tn_is_late(w) || md_tn_now_ns(w->dev) >= w->soft_ns;
}

const char *md_tn_trial_name(const md_tn_trial *trial)
{
    return trial->variant->name;
}
