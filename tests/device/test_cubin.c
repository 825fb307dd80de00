/* Facts of compiled GPU kernels and what is refused, without a GPU: NVRTC compiles for each architecture. Skips
 * itself where there is no NVRTC. */
#include "support/check.h"

#include "base/status.h"
#include "device/device.h"
#include "device/nvrtc/nvrtc.h"

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};

#define HEAD "struct md_params { float *a; const int *b; long long n; };\n"
#define ENTRY "(const __grid_constant__ md_params p)\n"

static const char plain_text[] = HEAD "extern \"C\" __global__ void __launch_bounds__(96, 2) md_kernel" ENTRY "{\n"
                                      "    __shared__ float s[250];\n"
                                      "    s[threadIdx.x] = p.a[threadIdx.x];\n"
                                      "    __syncthreads();\n"
                                      "    if (threadIdx.x < p.n) p.a[threadIdx.x] = s[(threadIdx.x * 7 + 3) % 96];\n"
                                      "}\n"
                                      "extern \"C\" __global__ void second() {}\n";

/* An array that is indexed at run time lies on the stack. */
static const char stack_text[] = HEAD "extern \"C\" __global__ void __launch_bounds__(128) md_kernel" ENTRY "{\n"
                                      "    float v[64], s = 0;\n"
                                      "    for (int i = 0; i < 64; i++) v[i] = p.a[i * 128 + threadIdx.x];\n"
                                      "    for (int j = 0; j < p.n; j++) s += v[p.b[j] & 63];\n"
                                      "    p.a[threadIdx.x] = s;\n"
                                      "}\n";

/* More values alive than 1024 threads have registers. */
static const char spill_text[] =
    HEAD "extern \"C\" __global__ void __launch_bounds__(1024) md_kernel" ENTRY "{\n"
         "    float v[96];\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < 96; i++) v[i] = p.a[i * 1024 + threadIdx.x];\n"
         "    __syncthreads();\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < 96; i++) p.a[i * 1024 + threadIdx.x] = v[95 - i] * v[(i * 7) % 96];\n"
         "}\n";

/* Ignored without launch bounds, and ptxas only mentions it. */
static const char loss_text[] = HEAD "extern \"C\" __global__ void md_kernel" ENTRY "{\n"
                                     "    asm volatile(\"setmaxnreg.dec.sync.aligned.u32 24;\");\n"
                                     "    if (p.n) p.a[threadIdx.x] = 1.0f;\n"
                                     "}\n";

static const char cluster_text[] =
    HEAD "extern \"C\" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256) md_kernel" ENTRY "{\n"
         "    extern __shared__ float d[];\n"
         "    if (p.n) p.a[threadIdx.x] = d[threadIdx.x];\n"
         "}\n";

typedef struct built {
    void *binary;
    size_t n;
    md_strbuf log;
} built;

static built build(const char *text, const char *arch)
{
    built b = {0};
    assert_ok(md_dev_nvrtc_compile(&b.binary, &b.n, &b.log, text, arch));
    return b;
}

static void drop(built *b)
{
    free(b->binary);
    md_strbuf_finish(&b->log);
}

static md_status check(const built *b, const char *text)
{
    return md_dev_nvrtc_check(NULL, b->binary, b->n, md_strbuf_text(&b->log), text, "md_kernel");
}

/* What ptxas says of its first kernel: "Used 10 registers". */
static int32_t registers_in(const char *log)
{
    const char *at = strstr(log, "Used ");
    return at ? (int32_t)strtol(at + 5, NULL, 10) : -1;
}

static void test_facts(void **state)
{
    (void)state;
    static const int32_t capability[] = {80, 90, 100};
    for (int i = 0; i < 3; i++) {
        built b = build(plain_text, archs[i]);
        md_dev_cubin facts, first, second;
        assert_ok(check(&b, plain_text));
        assert_ok(md_dev_cubin_read(&facts, b.binary, b.n, "md_kernel"));
        assert_ok(md_dev_cubin_read(&second, b.binary, b.n, "second"));
        assert_ok(md_dev_cubin_read(&first, b.binary, b.n, NULL));
        printf("%s: %d registers, %d bytes of frame, %d threads, %d bytes of parameters, %lld shared, %lld of code\n",
               archs[i], facts.registers, facts.frame_bytes, facts.max_threads, facts.param_bytes,
               (long long)facts.shared_bytes, (long long)facts.code_bytes);
        assert_string_equal(facts.kernel, "md_kernel");
        assert_int_equal(facts.capability, capability[i]);
        assert_true(facts.registers >= 8 && facts.registers <= 32 && facts.code_bytes >= 256);
        assert_non_null(strstr(md_strbuf_text(&b.log), "md_kernel"));
        assert_int_equal(facts.frame_bytes, 0);
        assert_int_equal(facts.max_threads, 96);
        assert_int_equal(facts.param_bytes, 24);
        assert_int_equal(facts.shared_bytes, 1000);
        assert_int_equal(facts.cluster, 0);
        assert_int_equal(second.param_bytes, 0);
        assert_int_equal(second.shared_bytes, 0);
        assert_true(strcmp(first.kernel, "second") == 0 || strcmp(first.kernel, "md_kernel") == 0);
        assert_fails(md_dev_cubin_read(&facts, b.binary, b.n, "third"), MD_NOT_FOUND, "'third'");
        drop(&b);
    }
}

static void test_cluster(void **state)
{
    (void)state;
    for (int i = 1; i < 3; i++) {
        built b = build(cluster_text, archs[i]);
        md_dev_cubin facts;
        assert_ok(md_dev_cubin_read(&facts, b.binary, b.n, "md_kernel"));
        assert_int_equal(facts.cluster, 4);
        assert_int_equal(facts.max_threads, 256);
        assert_int_equal(facts.shared_bytes, 0);
        assert_int_equal(facts.registers, registers_in(md_strbuf_text(&b.log)));
        drop(&b);
    }
    built b = {0};
    assert_fails(md_dev_nvrtc_compile(&b.binary, &b.n, &b.log, cluster_text, "sm_80"), MD_COMPILE, "__cluster_dims__");
    assert_null(b.binary);
    drop(&b);
}

static void test_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        built b = build(stack_text, archs[i]);
        md_dev_cubin facts;
        assert_ok(md_dev_cubin_read(&facts, b.binary, b.n, "md_kernel"));
        assert_int_equal(facts.frame_bytes, 256);
        assert_fails(check(&b, stack_text), MD_COMPILE, "a stack frame of 256 bytes");
        assert_ok(check(&b, "#define MD_ALLOW_STACK 1\n"));
        drop(&b);
        b = build(spill_text, archs[i]);
        assert_fails(check(&b, spill_text), MD_COMPILE, "kernel 'md_kernel' does not fit the registers: 64 of them");
        assert_null(strstr(md_last_error(), " 0 bytes spilled"));
        drop(&b);
        if (i == 0)
            continue; /* no such instruction on sm_80 */
        b = build(loss_text, archs[i]);
        assert_fails(check(&b, loss_text), MD_COMPILE, "C7508");
        assert_fails(check(&b, "#define MD_ALLOW_STACK 1\n"), MD_COMPILE, "Potential Performance Loss");
        drop(&b);
    }
}

static void test_errors(void **state)
{
    (void)state;
    built b = {0};
    assert_fails(md_dev_nvrtc_compile(&b.binary, &b.n, &b.log, "\n\n  int f() { return nothing; }\n", "sm_80"),
                 MD_COMPILE, "kernel.cu(3): error: identifier \"nothing\" is undefined | int f() { return nothing; }");
    assert_non_null(strstr(md_strbuf_text(&b.log), "nothing"));
    assert_fails(md_dev_nvrtc_compile(&b.binary, &b.n, NULL,
                                      "extern \"C\" __global__ void k() { asm volatile(\"nonsense;\"); }", "sm_80"),
                 MD_COMPILE, "nonsense");
    assert_fails(md_dev_nvrtc_compile(&b.binary, &b.n, NULL, plain_text, "sm_7"), MD_COMPILE, "sm_7");
    assert_null(b.binary);
    drop(&b);
}

/* No byte outside is read (ASan looks), and nothing is taken for whole that is not. */
static void test_broken(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    built b = build(plain_text, "sm_90a");
    md_dev_cubin facts;
    int n_refused = 0;
    for (size_t part = 0; part < b.n; part += 1 + part / 50) {
        char *copy = malloc(part + !part);
        memcpy(copy, b.binary, part);
        assert_int_equal(md_dev_cubin_read(&facts, copy, part, NULL), MD_CORRUPT);
        free(copy);
    }
    for (int turn = 0; turn < 3000; turn++) {
        char *copy = malloc(b.n);
        memcpy(copy, b.binary, b.n);
        for (uint64_t k = 0, n = 1 + check_random(&seed) % 8; k < n; k++)
            copy[check_random(&seed) % b.n] = (char)check_random(&seed);
        n_refused += md_dev_cubin_read(&facts, copy, b.n, "md_kernel") != MD_OK;
        free(copy);
    }
    printf("%d of 3000 damaged ones refused\n", n_refused);
    assert_int_equal(md_dev_cubin_read(&facts, NULL, 0, NULL), MD_CORRUPT);
    drop(&b);
}

static void test_archs(void **state)
{
    (void)state;
    md_dev_nvrtc nvrtc;
    char arch[16] = "";
    assert_ok(md_dev_nvrtc_open(&nvrtc));
    printf("NVRTC %d: %s\n", nvrtc.version, nvrtc.path);
    assert_true(nvrtc.version >= 12000 && nvrtc.path[0]);
    static const struct {
        int32_t capability;
        const char *arch;
    } known[] = {{80, "sm_80"},    {86, "sm_86"}, {89, "sm_89"}, {90, "sm_90a"},
                 {100, "sm_100a"}, {88, NULL},    {99, "sm_90"}};
    for (int i = 0; i < 7; i++) {
        assert_ok(md_dev_nvrtc_arch(arch, &nvrtc, known[i].capability));
        if (known[i].arch && (known[i].capability < 100 || nvrtc.version >= 12080))
            assert_string_equal(arch, known[i].arch);
    }
    assert_fails(md_dev_nvrtc_arch(arch, &nvrtc, 75), MD_UNSUPPORTED, "7.5");
    assert_fails(md_dev_nvrtc_arch(arch, &nvrtc, 990), MD_UNSUPPORTED, "99.0");
}

/* Assumed boards have all that models and families divide by. */
static void test_assumed(void **state)
{
    (void)state;
    static const int32_t known[] = {80, 90, 100};
    md_dev_facts f;
    for (int i = 0; i < 3; i++) {
        assert_ok(md_dev_cuda_assume(&f, known[i]));
        assert_int_equal(f.kind, MD_DEV_CUDA);
        assert_int_equal(f.capability, known[i]);
        assert_string_equal(f.arch, archs[i]);
        assert_true(f.threads > 100 && f.memory_gbps > 1000 && f.gflops > 10000 && f.shared_per_block > 0 &&
                    f.shared_per_sm > f.shared_per_block);
        assert_true(f.registers_per_sm == 65536 && f.threads_per_sm == 2048 && f.blocks_per_sm == 32 &&
                    f.l2_bytes > 0 && f.vector_bytes == 16);
    }
    assert_fails(md_dev_cuda_assume(&f, 75), MD_INVALID_ARGUMENT, "75");
}

int main(void)
{
    md_dev_nvrtc nvrtc;
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        printf("SKIPPED, nothing was tested: %s\n", md_last_error());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),   cmocka_unit_test(test_cluster), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_errors),  cmocka_unit_test(test_broken),  cmocka_unit_test(test_archs),
        cmocka_unit_test(test_assumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
