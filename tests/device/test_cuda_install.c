/* Machines on which something is missing or of another age: the driver, a GPU, NVRTC. dlopen is wrapped by the
 * linker, and what is asked for is refused or answered by this program, each time in a process of its own. Threads that
 * the driver, NVML and cuBLASLt start take no signals. What needs a real GPU skips itself elsewhere. */
#include "support/check.h"

#include "base/status.h"
#include "device/blas/internal.h"
#include "device/cuda/internal.h"
#include "device/nvrtc/nvrtc.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum supply {
    SUPPLY_REAL,
    SUPPLY_NONE,
    SUPPLY_FAKE,
    SUPPLY_OTHER /* a library without its functions */
} supply;

static struct machine {
    supply driver, nvrtc, others; /* NVML and cuBLASLt */
    int driver_version, init; /* cuInit's answer */
    int nvrtc_major;
} machine;

void *__real_dlopen(const char *name, int mode);
void *__wrap_dlopen(const char *name, int mode);

void *__wrap_dlopen(const char *name, int mode)
{
    const supply from = !name                        ? SUPPLY_REAL
                        : strstr(name, "libcuda.so") ? machine.driver
                        : strstr(name, "nvrtc")      ? machine.nvrtc
                        : strstr(name, "nvidia-ml")  ? machine.others
                        : strstr(name, "cublasLt")   ? machine.others
                                                     : SUPPLY_REAL;
    if (from == SUPPLY_NONE)
        return NULL;
    return __real_dlopen(from == SUPPLY_FAKE ? NULL : from == SUPPLY_OTHER ? "libm.so.6" : name, mode);
}

/* ---- What foreign libraries do at their first call: they start a thread, which inherits the mask of its creator. */

static int n_started, n_taking_signals;

static void *look_at_mask(void *unused)
{
    sigset_t blocked;
    (void)unused;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    n_started++;
    n_taking_signals += !sigismember(&blocked, SIGINT) || !sigismember(&blocked, SIGTERM) ||
                        !sigismember(&blocked, SIGALRM) || !sigismember(&blocked, SIGUSR1);
    return NULL;
}

static void start_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, look_at_mask, NULL) == 0)
        pthread_join(thread, NULL);
}

/* ---- A driver, as far as the runtime asks */

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found);

int cuInit(unsigned flags)
{
    (void)flags;
    start_thread();
    return machine.init;
}

int cuDriverGetVersion(int *version)
{
    *version = machine.driver_version;
    return 0;
}

static int refuse(void)
{
    return machine.init ? machine.init : 999;
}

typedef void (*any_fn)(void);

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found)
{
    static const struct {
        const char *name;
        any_fn function;
    } known[] = {{"cuInit", (any_fn)cuInit},
                 {"cuDriverGetVersion", (any_fn)cuDriverGetVersion},
                 {"cuGetProcAddress", (any_fn)cuGetProcAddress_v2}};
    any_fn is = (any_fn)refuse;
    (void)version, (void)flags;
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, known[i].name))
            is = known[i].function;
    memcpy(function, &is, sizeof is);
    if (found)
        *found = 0;
    return 0;
}

/* ---- An NVRTC that has a version and nothing else */

#define NAMES(F)                                                                                                       \
    F(nvrtcGetErrorString)                                                                                             \
    F(nvrtcGetNumSupportedArchs)                                                                                       \
    F(nvrtcGetSupportedArchs)                                                                                          \
    F(nvrtcCreateProgram)                                                                                              \
    F(nvrtcDestroyProgram)                                                                                             \
    F(nvrtcGetPTXSize)                                                                                                 \
    F(nvrtcGetPTX)                                                                                                     \
    F(nvrtcCompileProgram) F(nvrtcGetCUBINSize) F(nvrtcGetCUBIN) F(nvrtcGetProgramLogSize) F(nvrtcGetProgramLog)
#define STUB(name)                                                                                                     \
    int name(void);                                                                                                    \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        return 1;                                                                                                      \
    }
NAMES(STUB)
int nvrtcVersion(int *major, int *minor);

int nvrtcVersion(int *major, int *minor)
{
    *major = machine.nvrtc_major;
    *minor = 8;
    return 0;
}

/* ---- An NVML and a cuBLASLt that start and do nothing else */

#define OTHERS(F)                                                                                                      \
    F(nvmlDeviceGetHandleByPciBusId_v2)                                                                                \
    F(nvmlDeviceGetClockInfo)                                                                                          \
    F(nvmlDeviceGetMaxClockInfo)                                                                                       \
    F(nvmlDeviceGetCurrentClocksThrottleReasons)                                                                       \
    F(cublasLtDestroy)                                                                                                 \
    F(cublasLtMatmulDescCreate)                                                                                        \
    F(cublasLtMatmulDescSetAttribute)                                                                                  \
    F(cublasLtMatmulDescDestroy)                                                                                       \
    F(cublasLtMatrixLayoutCreate)                                                                                      \
    F(cublasLtMatrixLayoutSetAttribute)                                                                                \
    F(cublasLtMatrixLayoutDestroy)                                                                                     \
    F(cublasLtMatmulPreferenceCreate)                                                                                  \
    F(cublasLtMatmulPreferenceSetAttribute)                                                                            \
    F(cublasLtMatmulPreferenceDestroy)                                                                                 \
    F(cublasLtMatmulAlgoGetHeuristic) F(cublasLtMatmulAlgoConfigGetAttribute) F(cublasLtMatmul)
OTHERS(STUB)
int nvmlInit_v2(void);
int cublasLtCreate(void **handle);

int nvmlInit_v2(void)
{
    start_thread();
    return 0;
}

int cublasLtCreate(void **handle)
{
    start_thread();
    *handle = NULL;
    return 0;
}

/* ---- Checks, in processes of their own. They return NULL, or what is wrong. */

typedef const char *(*check_fn)(void);
enum { SKIPPED = 77 };
static const char no_gpu[] = "no GPU";

static bool has_said(md_status got, md_status want, const char *part)
{
    printf("    %s: %s\n", md_status_name(got), md_last_error());
    return got == want && strstr(md_last_error(), part);
}

static int run_on(struct machine m, check_fn check)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        machine = m;
        const char *wrong = check();
        if (wrong && wrong != no_gpu)
            printf("    wrong: %s\n", wrong);
        fflush(stdout);
        _exit(wrong == no_gpu ? SKIPPED : wrong != NULL);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* "auto" goes on without a GPU, and the op is right. */
static const char *check_computes(md_context *context)
{
    md_op *op = NULL;
    float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
    const size_t n_bytes = sizeof x;
    md_tensor tx = md_tensor_make(NULL, MD_F32, 1, &(int64_t){5}), ty = tx;
    const char *wrong = NULL;
    if (md_alloc(&tx.data, context, n_bytes) != MD_OK || md_alloc(&ty.data, context, n_bytes) != MD_OK ||
        md_copy(context, tx.data, x, n_bytes) != MD_OK)
        wrong = "memory";
    else if (md_op_create(&op, context, "Y[i] = X[i] * 2 + 1", &(md_op_options){.hints = "16"}) != MD_OK)
        wrong = md_last_error();
    else if (md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2) != MD_OK || md_sync(context, NULL) != MD_OK)
        wrong = md_last_error();
    else if (md_copy(context, y, ty.data, n_bytes) != MD_OK || y[0] != 3 || y[4] != 11)
        wrong = "the result";
    md_op_destroy(&op);
    md_free(context, tx.data);
    md_free(context, ty.data);
    return wrong;
}

static const char *check_unsupported(const char *part)
{
    md_context *context = NULL;
    if (!has_said(md_context_create(&context, &(md_context_options){.device = "cuda"}), MD_UNSUPPORTED, part) ||
        context)
        return "what cuda said";
    if (md_context_create(&context, &(md_context_options){.device = "auto", .cc = "/nonexistent/cc"}) != MD_OK)
        return "auto does not go on";
    const char *wrong = check_computes(context);
    md_context_destroy(&context);
    return wrong;
}

static const char *check_no_driver(void)
{
    return check_unsupported("no NVIDIA driver");
}
static const char *check_no_device(void)
{
    return check_unsupported("shows no GPU");
}
static const char *check_old_driver(void)
{
    return check_unsupported("too old: it is for CUDA 11.4, and this build has the runtime of CUDA 1");
}

static void test_driver(void **state)
{
    (void)state;
    enum { NO_DEVICE = 100 };
    assert_int_equal(run_on((struct machine){.driver = SUPPLY_NONE}, check_no_driver), 0);
    assert_int_equal(
        run_on((struct machine){.driver = SUPPLY_FAKE, .driver_version = 99000, .init = NO_DEVICE}, check_no_device),
        0);
    assert_int_equal(run_on((struct machine){.driver = SUPPLY_FAKE, .driver_version = 11040}, check_old_driver), 0);
}

static const char *check_nvrtc(md_status want, const char *part)
{
    md_dev_nvrtc nvrtc;
    void *binary = NULL;
    size_t n = 0;
    if (!has_said(md_dev_nvrtc_open(&nvrtc), want, part))
        return "opening";
    return has_said(md_dev_nvrtc_compile(&binary, &n, NULL, "", "sm_90a"), want, part) && !binary ? NULL : "compiling";
}

static const char *check_no_nvrtc(void)
{
    return check_nvrtc(MD_NOT_FOUND, "no NVRTC");
}
static const char *check_old_nvrtc(void)
{
    return check_nvrtc(MD_UNSUPPORTED, "too old: 11.8, and 12.0 is needed");
}
static const char *check_no_functions(void)
{
    return check_nvrtc(MD_UNSUPPORTED, "it has no nvrtcVersion");
}

/* Each starts a thread; none of them takes signals, and the caller does as before. */
static const char *check_threads(void)
{
    sigset_t before, after;
    md_dev *none = NULL;
    md_dev_clock clock;
    md_dev_cuda dev = {.base = {.facts = {.kind = MD_DEV_CUDA}}};
    pthread_mutex_init(&dev.nvml_lock, NULL);
    pthread_mutex_init(&dev.blas_lock, NULL);
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (md_dev_cuda_open(&none, &(md_dev_options){0}, -1) == MD_OK || n_started < 1 || n_taking_signals)
        return "the driver's thread";
    const int by_driver = n_started;
    if (md_dev_cuda_clock_rate(&clock, &dev.base) == MD_OK || n_started <= by_driver || n_taking_signals)
        return "NVML's thread";
    const int by_nvml = n_started;
    if (!md_blas_start(&dev) || n_started != by_nvml + 1 || n_taking_signals)
        return "cuBLASLt's thread";
    dev.stop_blas(dev.blas);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 32; i++)
        if (sigismember(&before, i) != sigismember(&after, i))
            return "the caller's mask";
    return NULL;
}

static void test_threads(void **state)
{
    enum { NO_DEVICE = 100 };
    (void)state;
    assert_int_equal(
        run_on(
            (struct machine){.driver = SUPPLY_FAKE, .others = SUPPLY_FAKE, .driver_version = 99000, .init = NO_DEVICE},
            check_threads),
        0);
}

static void test_nvrtc(void **state)
{
    (void)state;
    assert_int_equal(run_on((struct machine){.nvrtc = SUPPLY_NONE}, check_no_nvrtc), 0);
    assert_int_equal(run_on((struct machine){.nvrtc = SUPPLY_FAKE, .nvrtc_major = 11}, check_old_nvrtc), 0);
    assert_int_equal(run_on((struct machine){.nvrtc = SUPPLY_OTHER}, check_no_functions), 0);
}

/* ---- With a GPU: memory works, ops are served by the reference, and the log says why. */

static char said[2000];

static void keep(void *user, md_log_level level, const char *message)
{
    (void)user;
    if (level <= MD_LOG_WARN)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
}

static const char *check_without_compiler(const char *part)
{
    md_context *context = NULL;
    said[0] = 0;
    md_status s = md_context_create(&context, &(md_context_options){.device = "cuda", .log = keep});
    if (s == MD_UNSUPPORTED)
        return no_gpu;
    if (s != MD_OK)
        return md_last_error();
    printf("    %s", said);
    const char *wrong = strstr(said, part) ? check_computes(context) : "what was said";
    md_context_destroy(&context);
    return wrong;
}

static const char *check_gpu_no_nvrtc(void)
{
    return check_without_compiler("no kernel can be compiled for the GPU: no NVRTC");
}
static const char *check_gpu_old_nvrtc(void)
{
    return check_without_compiler("no kernel can be compiled for the GPU: NVRTC is too old: 11.8");
}
static const char *check_gpu_new_nvrtc(void)
{
    return check_without_compiler("NVRTC 99.8 makes kernels that this driver");
}

static void test_gpu(void **state)
{
    (void)state;
    const int first = run_on((struct machine){.nvrtc = SUPPLY_NONE}, check_gpu_no_nvrtc);
    if (first == SKIPPED)
        skip();
    assert_int_equal(first, 0);
    assert_int_equal(run_on((struct machine){.nvrtc = SUPPLY_FAKE, .nvrtc_major = 11}, check_gpu_old_nvrtc), 0);
    assert_int_equal(run_on((struct machine){.nvrtc = SUPPLY_FAKE, .nvrtc_major = 99}, check_gpu_new_nvrtc), 0);
}

/* A driver that says what no GPU has. */
static void test_impossible_facts(void **state)
{
    static const int32_t known[] = {80, 90, 100};
    md_dev_facts good, f;
    (void)state;
    for (int32_t i = 0; i < MD_COUNT(known); i++) {
        assert_ok(md_dev_cuda_assume(&good, known[i]));
        assert_ok(md_dev_cuda_check_facts(&good));
    }
    f = good;
    f.threads = 0;
    assert_fails(md_dev_cuda_check_facts(&f), MD_DEVICE, "it has 0 SMs, which is impossible");
    f = good;
    f.shared_per_sm = f.shared_per_block - 1;
    assert_fails(md_dev_cuda_check_facts(&f), MD_DEVICE, "bytes of shared memory an SM");
    f = good;
    f.global_bytes = -1;
    assert_fails(md_dev_cuda_check_facts(&f), MD_DEVICE, "it has -1 bytes of memory");
    f = good;
    f.memory_gbps = NAN;
    assert_fails(md_dev_cuda_check_facts(&f), MD_DEVICE, "GB/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_impossible_facts), cmocka_unit_test(test_driver),
                                       cmocka_unit_test(test_threads), cmocka_unit_test(test_nvrtc),
                                       cmocka_unit_test(test_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
