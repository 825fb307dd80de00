/* What the tests of the host device share. */
#include "device/host_fixture.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

const char host_scale_text[] = "typedef union { void *p; long long i; double d; } word;\n"
                               "static float twice(float x) { return x * FACTOR; }\n"
                               "void scale(const word *p, long long first, long long last, void *scratch)\n"
                               "{\n"
                               "    float *y = p[0].p;\n"
                               "    for (long long i = first; i < last; i++) y[i] = twice(y[i]) + (float)p[1].d;\n"
                               "}\n";

static void keep_log(void *user, md_log_level level, const char *message)
{
    host_fixture *f = user;
    size_t used = strlen(f->log);
    snprintf(f->log + used, sizeof f->log - used, "%d %s\n", (int)level, message);
}

int host_setup(void **state)
{
    host_fixture *f = calloc(1, sizeof *f);
    if (!f || md_pool_create(&f->pool, 3) != MD_OK)
        return -1;
    snprintf(f->root, sizeof f->root, "/tmp/md-test-host-XXXXXX");
    if (!mkdtemp(f->root))
        return -1;
    snprintf(f->folder, sizeof f->folder, "%s/tmp", f->root);
    mkdir(f->folder, 0700);
    setenv("TMPDIR", f->folder, 1);
    *state = f;
    return 0;
}

int host_count_left(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

int host_teardown(void **state)
{
    host_fixture *f = *state;
    char path[600];
    unsetenv("TMPDIR");
    int n_left = host_count_left(f->folder);
    rmdir(f->folder);
    snprintf(path, sizeof path, "%s/cc", f->root);
    unlink(path);
    rmdir(f->root);
    md_pool_destroy(&f->pool);
    free(f);
    if (n_left)
        printf("%d files left in TMPDIR\n", n_left);
    return n_left; /* a test that leaves files behind fails */
}

md_dev *host_open(host_fixture *f, const char *cc, int32_t limit_ms)
{
    f->logger = (md_log){keep_log, f, MD_LOG_WARN};
    md_dev *dev = NULL;
    assert_ok(md_dev_open(
        &dev, &(md_dev_options){
                  .device = "host", .cc = cc, .pool = f->pool, .log = &f->logger, .compile_limit_ms = limit_ms}));
    return dev;
}

const char *host_write_compiler(host_fixture *f, const char *script)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/cc", f->root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\ncase \"$1\" in --version) echo 'toy 1.2.3'; exit 0;; esac\n%s\n", script);
    fclose(file);
    chmod(path, 0700);
    return path;
}

md_kn_launch_source host_source(const char *text, const char *entry)
{
    md_kn_launch_source s = {.code = MD_KN_TEXT};
    md_strbuf_add(&s.text, text);
    snprintf(s.entry, sizeof s.entry, "%s", entry);
    return s;
}

md_status host_compile(void **binary, size_t *n, md_dev *dev, const char *text, const char *entry)
{
    md_kn_launch_source s = host_source(text, entry);
    md_status status = dev->ops->compile(binary, n, dev, &s);
    md_strbuf_finish(&s.text);
    return status;
}

md_dev_kernel *host_make(md_dev *dev, const char *text, const char *entry)
{
    md_kn_launch_source s = host_source(text, entry);
    void *binary = NULL;
    size_t n = 0;
    md_dev_kernel *kernel = NULL;
    assert_ok(dev->ops->compile(&binary, &n, dev, &s));
    assert_ok(dev->ops->load(&kernel, dev, binary, n, &s));
    free(binary);
    md_strbuf_finish(&s.text);
    return kernel;
}

md_dev_kernel *host_make_scale(md_dev *dev, double factor)
{
    char text[1024];
    snprintf(text, sizeof text, "#define FACTOR %.1ff\n%s", factor, host_scale_text);
    return host_make(dev, text, "scale");
}
