/* How many processors' time the control groups of this process allow. */
#ifndef MD_BASE_CPU_QUOTA_H
#define MD_BASE_CPU_QUOTA_H
#include <stdint.h>
/** Of the groups that `list` names (/proc/self/cgroup), below `groups` (/sys/fs/cgroup), both versions; rounded up.
 * 0: no limit, or none that can be read. Reads some files. */
int32_t md_cpu_quota(const char *list, const char *groups);
#endif
