/* The folders of a store: opened when first used, the user's made when first written to. */
#include "base/status.h"
#include "store/internal.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void md_sr_warn_once(md_sr *s, const char *what)
{
    if (!atomic_exchange_explicit(&s->has_warned, true, memory_order_relaxed))
        md_log_at(s->log, MD_LOG_WARN, "store: %s: %s", what, md_last_error());
}

/* Opens <path>/<environment>. NOT_FOUND where there is none. */
static md_status open_place(md_sr *s, md_sr_place *p)
{
    int root = -1, fd = -1;
    md_status status = md_sr_folder_open(&root, AT_FDCWD, p->path, p->owner);
    if (status == MD_OK) {
        status = md_sr_folder_open(&fd, root, s->folder, p->owner);
        close(root);
    }
    if (status == MD_OK)
        atomic_store_explicit(&p->fd, fd, memory_order_release);
    return status;
}

int md_sr_place_fd(md_sr *s, md_sr_place *p)
{
    int fd = atomic_load_explicit(&p->fd, memory_order_acquire);
    if (fd >= 0 || p->is_refused)
        return fd;
    pthread_mutex_lock(&s->lock_of_places);
    if (atomic_load_explicit(&p->fd, memory_order_relaxed) < 0 && !p->is_refused) {
        const md_status status = open_place(s, p);
        if (status != MD_OK && status != MD_NOT_FOUND) {
            p->is_refused = true;
            md_sr_warn_once(s, "nothing is read from this folder");
        }
    }
    pthread_mutex_unlock(&s->lock_of_places);
    return atomic_load_explicit(&p->fd, memory_order_acquire);
}

/* Makes root and environment, with a text that says what the digest stands for. */
static md_status make_place(md_sr *s, md_sr_place *p)
{
    int root = -1, fd = -1;
    MD_TRY(md_sr_folder_make(&root, AT_FDCWD, p->path, true));
    md_status status = md_sr_folder_make(&fd, root, s->folder, false);
    close(root);
    MD_TRY(status);
    if (faccessat(fd, MD_SR_ABOUT, F_OK, 0) != 0)
        status = md_sr_file_write(fd, MD_SR_ABOUT, s->about, strlen(s->about));
    if (status != MD_OK) {
        close(fd);
        return status;
    }
    atomic_store_explicit(&p->fd, fd, memory_order_release);
    return MD_OK;
}

md_status md_sr_writable_fd(int *fd, md_sr *s)
{
    if (!s || !s->has_user)
        return md_fail(MD_IO, "there is no folder to keep things in");
    md_sr_place *p = &s->place[0];
    md_status status = MD_OK;
    pthread_mutex_lock(&s->lock_of_places);
    if (p->is_refused)
        status = md_fail(MD_IO, "the folder %s is refused", p->path);
    else if (atomic_load_explicit(&p->fd, memory_order_relaxed) < 0)
        status = make_place(s, p);
    if (status == MD_OK && !p->is_clear) {
        md_sr_clear_fresh(atomic_load_explicit(&p->fd, memory_order_relaxed));
        p->is_clear = true;
    }
    pthread_mutex_unlock(&s->lock_of_places);
    *fd = atomic_load_explicit(&p->fd, memory_order_acquire);
    return status;
}
