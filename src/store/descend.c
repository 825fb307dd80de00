/* Visits names and files in the folders of a store. */
#include "store/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

md_status md_sr_each_name(int at, const char *path, md_sr_name_fn visit, void *user)
{
    const int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return MD_OK; /* gone, or no folder */
    }
    md_status status = MD_OK;
    for (struct dirent *e; status == MD_OK && (e = readdir(folder));)
        if (e->d_name[0] != '.')
            status = visit(user, dirfd(folder), e->d_name);
    closedir(folder);
    return status;
}

typedef struct descent {
    md_sr_path_fn visit;
    void *user;
    int environment;
    const char *kind, *part;
} descent;

static md_status visit_file(void *user, int folder, const char *name)
{
    const descent *d = user;
    char path[MD_SR_PATH];
    (void)folder;
    const int n = snprintf(path, sizeof path, "%s/%s/%s", d->kind, d->part, name);
    return n < MD_SR_PATH ? d->visit(d->user, d->environment, d->kind, path) : MD_OK;
}

static md_status visit_part(void *user, int folder, const char *name)
{
    descent *d = user;
    d->part = name;
    return md_sr_each_name(folder, name, visit_file, d);
}

md_status md_sr_each_of_kind(int environment, const char *kind, md_sr_path_fn visit, void *user)
{
    descent d = {visit, user, environment, kind, NULL};
    return md_sr_each_name(environment, kind, visit_part, &d);
}

static md_status visit_kind(void *user, int folder, const char *name)
{
    descent *d = user;
    return strcmp(name, MD_SR_LEASES) ? md_sr_each_of_kind(folder, name, d->visit, d->user) : MD_OK;
}

md_status md_sr_each_entry(int environment, md_sr_path_fn visit, void *user)
{
    descent d = {.visit = visit, .user = user};
    return md_sr_each_name(environment, ".", visit_kind, &d);
}
