/* The processors' time that control groups leave to this process. A container that is given the time of two processors
 * still sees all those of the machine, and threads for all of them would be stopped for most of each period. */
#include "base/cpu_quota.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 4096 };

static bool read_words(const char *folder, const char *name, char *out, size_t n)
{
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool is_read = fgets(out, (int)n, file) != NULL;
    fclose(file);
    return is_read;
}

/* Version 2 has both numbers in one file, "max 100000" or "200000 100000"; version 1 has two files, and -1 for none. */
static int32_t quota_of(const char *folder, bool is_second)
{
    char text[64], of_period[32];
    int64_t quota = 0, period = 0;
    if (is_second) {
        if (!read_words(folder, "cpu.max", text, sizeof text) ||
            sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) != 2)
            return 0;
    } else {
        if (!read_words(folder, "cpu.cfs_quota_us", text, sizeof text) ||
            !read_words(folder, "cpu.cfs_period_us", of_period, sizeof of_period))
            return 0;
        quota = strtoll(text, NULL, 10);
        period = strtoll(of_period, NULL, 10);
    }
    return quota > 0 && period > 0 && quota / period < INT32_MAX ? (int32_t)((quota - 1) / period + 1) : 0;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* The least of a group's and of those that it lies in. Where a container has no name space for groups, the path is the
 * machine's, and what is mounted is the container's own group: the last one looked at. */
static int32_t least_quota(const char *mount, const char *group, bool is_second)
{
    char folder[PATH_BYTES];
    const int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    const size_t n_mount = strlen(mount);
    int32_t least = 0;
    if (n < 0 || n >= PATH_BYTES)
        folder[n_mount] = 0;
    for (;;) {
        least = smaller(least, quota_of(folder, is_second));
        char *slash = strrchr(folder + n_mount, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static bool has_controller(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == n && !strncmp(list, name, n))
            return true;
    return false;
}

/* A line of /proc/self/cgroup: "4:cpu,cpuacct:/path", or "0::/path" of version 2. */
static int32_t quota_of_line(char *line, const char *groups)
{
    static const char *const mounts[2][3] = {{"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"}, {"", "/unified", ""}};
    char mount[PATH_BYTES], *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    int32_t least = 0;
    if (!path)
        return 0;
    *path = 0;
    const bool is_second = list[1] == 0;
    if (!is_second && !has_controller(list + 1, "cpu"))
        return 0;
    path[1 + strcspn(path + 1, "\n")] = 0;
    for (int i = 0; i < 3; i++)
        if (snprintf(mount, sizeof mount, "%s%s", groups, mounts[is_second][i]) < (int)sizeof mount)
            least = smaller(least, least_quota(mount, path + 1, is_second));
    return least;
}

int32_t md_cpu_quota(const char *list, const char *groups)
{
    char line[LINE_BYTES];
    int32_t least = 0;
    FILE *file = fopen(list, "re");
    while (file && fgets(line, sizeof line, file))
        least = smaller(least, quota_of_line(line, groups));
    if (file)
        fclose(file);
    return least;
}
