/* The cuda device: with a second device, after a fork, and after it is lost. Skips itself where there is no GPU. */
#include "device/cuda_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

/* Another device in between must not matter. */
static void test_two_devices(void **state)
{
    fixture *f = *state;
    int n = 0;
    md_dev *other = NULL;
    void *p = NULL;
    assert_int_equal(cudaGetDeviceCount(&n), cudaSuccess);
    if (n < 2)
        skip();
    assert_ok(md_dev_open(&other, &(md_dev_options){.device = "cuda:1", .pool = f->pool}));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cudaSetDevice(i), cudaSuccess);
        check_works(f->dev);
        check_works(other);
        int current = -1;
        assert_int_equal(cudaGetDevice(&current), cudaSuccess);
        assert_int_equal(current, i);
    }
    assert_ok(other->ops->alloc(&p, other, 64));
    assert_fails(f->dev->ops->check_pointer(f->dev, p), MD_INVALID_ARGUMENT, "memory of cuda:1");
    assert_fails(f->dev->ops->check_stream(f->dev, other->tuning), MD_INVALID_ARGUMENT,
                 "a stream of cuda:1, and the context is on cuda:0");
    assert_fails(other->ops->check_stream(other, f->dev->tuning), MD_INVALID_ARGUMENT,
                 "a stream of cuda:0, and the context is on cuda:1");
    assert_ok(other->ops->check_stream(other, other->tuning));
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    other->ops->free(other, p);
    cudaSetDevice(0);
    md_dev_close(&other);
}

static void test_fork(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    pid_t child = fork();
    if (child == 0) {
        void *p = NULL;
        _exit(dev->ops->alloc(&p, dev, 64) == MD_DEVICE && strstr(md_last_error(), "fork") ? 0 : 1);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    check_works(dev);
}

/* In a process of its own: afterwards nothing works. */
static int lose_device(void)
{
    fixture f;
    static const char wild[] =
        "struct md_params { int *p; long long n; };\n"
        "extern \"C\" __global__ void md_kernel(const __grid_constant__ md_params p) { if (p.n) *p.p = 1; }\n";
    if (!fixture_open(&f))
        return 2;
    void *p = NULL;
    md_dev_kernel *kernel = make(f.dev, wild);
    md_kn_word words[2] = {{.i = 64}, {.i = 1}};
    md_kn_geometry g = grid_of(1, 1);
    md_status launched = f.dev->ops->launch(f.dev, NULL, kernel, &g, (md_dev_params){words, 2}, NULL),
              waited = f.dev->ops->sync(f.dev, NULL);
    printf("%s\n", md_last_error());
    bool is_good = launched == MD_OK && waited == MD_DEVICE && strstr(md_last_error(), "lost");
    is_good = is_good && f.dev->ops->alloc(&p, f.dev, 64) == MD_DEVICE && strstr(md_last_error(), "earlier error");
    printf("%s\n", md_last_error());
    is_good = is_good && f.dev->ops->launch(f.dev, NULL, kernel, &g, (md_dev_params){words, 2}, NULL) == MD_DEVICE;
    f.dev->ops->unload(f.dev, kernel);
    fixture_close(&f);
    return is_good ? 0 : 1;
}

static void test_lost_device(void **state)
{
    (void)state;
    char self[4096] = "", command[4200];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "'%s' lose", self);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv)
{
    static fixture f;
    if (argc > 1 && strcmp(argv[1], "lose") == 0)
        return lose_device();
    if (!fixture_open(&f))
        return f.exit_code;
#define TEST(name) cmocka_unit_test_prestate(name, &f)
    const struct CMUnitTest tests[] = {TEST(test_two_devices), TEST(test_fork), TEST(test_lost_device)};
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close(&f);
    return n_failed;
}
