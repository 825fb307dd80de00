/* The cuda device: opening, memory, compiling, loading, launching, reports, and what can go wrong. Skips itself
 * where there is no GPU. */
#include "device/cuda_fixture.h"

#include "base/dtype.h"
#include "device/nvrtc/nvrtc.h"
#include "device/open.h"

static void test_facts(void **state)
{
    fixture *f = *state;
    uint64_t start = md_clock_ns();
    md_dev *dev = NULL;
    assert_ok(md_dev_open(&dev, &(md_dev_options){.device = "auto", .pool = f->pool}));
    double ms = (double)(md_clock_ns() - start) * 1e-6;
    const md_dev_facts *a = &dev->facts;
    assert_int_equal(a->kind, MD_DEV_CUDA);
    printf("%s, %d SMs, %s, driver %d, runtime %d, nvrtc %d, '%s' '%s'\n", a->name, a->threads, a->arch, a->driver,
           a->runtime, a->nvrtc, a->compiler, a->flags);
    printf("L2 %lld, shared %lld of %lld, %d registers, %d threads, %d blocks an SM, %lld MB; %.0f GB/s, %.0f GFLOP/s; "
           "a second device opens in %.2f ms\n",
           (long long)a->l2_bytes, (long long)a->shared_per_block, (long long)a->shared_per_sm, a->registers_per_sm,
           a->threads_per_sm, a->blocks_per_sm, (long long)a->global_bytes >> 20, a->memory_gbps, a->gflops, ms);
    assert_true(a->capability >= 80 && a->threads > 0 && a->vector_bytes == 16 && a->shared_per_block >= 99 << 10);
    assert_true(a->registers_per_sm == 65536 && a->memory_gbps > 100 && a->gflops > 1000 && a->l2_bytes > 1 << 20);
    assert_true(a->can_compile && strncmp(a->arch, "sm_", 3) == 0);
    md_dev_facts typical;
    if (md_dev_cuda_assume(&typical, a->capability) == MD_OK && strstr(a->name, "H200")) {
        assert_int_equal(typical.threads, a->threads);
        assert_int_equal(typical.shared_per_block, a->shared_per_block);
        assert_int_equal(typical.shared_per_sm, a->shared_per_sm);
        assert_string_equal(typical.arch, a->arch);
        assert_true(a->memory_gbps > 0.9 * typical.memory_gbps && a->memory_gbps < 1.1 * typical.memory_gbps);
    }
    md_dev_close(&dev);
}

static void test_names(void **state)
{
    fixture *f = *state;
    md_dev *dev = NULL;
    assert_fails(md_dev_open(&dev, &(md_dev_options){.device = "cuda:999", .pool = f->pool}), MD_INVALID_ARGUMENT,
                 "there is no cuda:999");
    assert_fails(md_dev_open(&dev, &(md_dev_options){.device = "cuda:", .pool = f->pool}), MD_INVALID_ARGUMENT,
                 "cuda:");
    assert_fails(md_dev_open(&dev, &(md_dev_options){.device = "cuda:-1", .pool = f->pool}), MD_INVALID_ARGUMENT,
                 "cuda:-1");
    assert_null(dev);
    assert_ok(md_dev_open(&dev, &(md_dev_options){.device = "cuda:0", .pool = f->pool}));
    assert_int_equal(dev->facts.index, 0);
    md_dev_close(&dev);
}

static void test_memory(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    const size_t sizes[] = {0, 1, 63, 257, 1000003};
    for (int i = 0; i < 5; i++) {
        char *host = malloc(sizes[i] + 1), *back = calloc(sizes[i] + 1, 1);
        void *p = NULL, *q = NULL;
        for (size_t k = 0; k < sizes[i]; k++)
            host[k] = (char)(k * 7);
        assert_ok(dev->ops->alloc(&p, dev, sizes[i]));
        assert_ok(dev->ops->alloc(&q, dev, sizes[i]));
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_ok(dev->ops->copy(dev, p, host, sizes[i]));
        assert_ok(dev->ops->copy(dev, q, p, sizes[i]));
        assert_ok(dev->ops->copy(dev, back, q, sizes[i]));
        assert_memory_equal(host, back, sizes[i]);
        assert_ok(dev->ops->check_pointer(dev, q));
        dev->ops->free(dev, p);
        dev->ops->free(dev, q);
        free(host);
        free(back);
    }
    dev->ops->free(dev, NULL);
    assert_ok(dev->ops->sync(dev, NULL));
    check_works(dev);
}

static void test_pointers(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    char local[64] = {0};
    char *heap = calloc(64, 1);
    void *pinned = NULL, *managed = NULL;
    assert_fails(dev->ops->check_pointer(dev, local), MD_INVALID_ARGUMENT, "host memory");
    assert_fails(dev->ops->check_pointer(dev, heap), MD_INVALID_ARGUMENT, "host memory");
    assert_int_equal(cudaMallocHost(&pinned, 64), cudaSuccess);
    assert_int_equal(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal), cudaSuccess);
    assert_ok(dev->ops->check_pointer(dev, pinned));
    assert_ok(dev->ops->check_pointer(dev, managed));
    assert_ok(dev->ops->check_stream(dev, dev->tuning));
    assert_ok(dev->ops->check_stream(dev, NULL));
    assert_ok(dev->ops->check_stream(dev, (md_stream)cudaStreamPerThread));
    cudaFreeHost(pinned);
    cudaFree(managed);
    free(heap);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void test_out_of_memory(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    void *p = NULL;
    assert_fails(dev->ops->alloc(&p, dev, (size_t)1 << 50), MD_OUT_OF_MEMORY, "1125899906842624 bytes were asked for");
    assert_fails(dev->ops->workspace(&p, dev, NULL, (size_t)1 << 50), MD_OUT_OF_MEMORY, "1125899906842624");
    assert_null(p);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess); /* nothing is left for the application to find */
    assert_ok(dev->ops->workspace(&p, dev, NULL, 100));
    check_works(dev);
}

static void test_bad_texts(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    void *binary = NULL;
    size_t n = 0;
    assert_fails(compile(&binary, &n, dev, "\nextern \"C\" __global__ void md_kernel() { nothing(); }\n"), MD_COMPILE,
                 "kernel.cu(2): error");
    assert_fails(compile(&binary, &n, dev, "extern \"C\" __global__ void other() {}\n"), MD_NOT_FOUND, "'md_kernel'");
    assert_null(binary);
}

static void test_bad_binaries(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    void *binary = NULL, *foreign = NULL;
    size_t n = 0, n_foreign = 0;
    md_dev_kernel *kernel = NULL;
    assert_ok(compile(&binary, &n, dev, scale_text));
    for (size_t part = 0; part < n; part += n / 9 + 1)
        assert_int_equal(load(&kernel, dev, binary, part), MD_DEVICE);
    assert_fails(load(&kernel, dev, "not a cubin at all", 18), MD_DEVICE, "cubin");
    const char *other = dev->facts.capability / 10 == 8 ? "sm_90a" : "sm_80";
    assert_ok(md_dev_nvrtc_compile(&foreign, &n_foreign, NULL, scale_text, other));
    assert_fails(load(&kernel, dev, foreign, n_foreign), MD_DEVICE, "cannot be loaded on cuda:");
    assert_null(kernel);
    free(binary);
    free(foreign);
    check_works(dev);
}

static void test_refused_launches(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    md_dev_kernel *kernel = make(dev, scale_text);
    md_kn_word words[3] = {{0}};
    md_kn_geometry g = grid_of(1, 2048);
    assert_fails(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){words, 3}, NULL), MD_UNSUPPORTED, "md_kernel");
    g = grid_of(1, 1024); /* launch bounds say 128 */
    assert_fails(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){words, 3}, NULL), MD_UNSUPPORTED,
                 "block 1024 x 1 x 1");
    g = grid_of(1, 128);
    g.scratch_bytes = dev->facts.shared_per_block + 1;
    assert_int_not_equal(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){words, 3}, NULL), MD_OK);
    g = grid_of(1 << 20, 128);
    g.is_cooperative = true;
    assert_fails(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){words, 3}, NULL), MD_UNSUPPORTED,
                 "cooperative");
    g = grid_of(1, 128);
    assert_fails(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){words, 2}, NULL), MD_INTERNAL, "24 bytes");
    g.blocks = g.grid[0] = 0;
    assert_ok(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){words, 3}, NULL));
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    dev->ops->unload(dev, kernel);
    check_works(dev);
}

/* Sixteen blocks that read each other's dynamic shared memory, all that there is of it. */
static const char cluster_text[] =
    "struct md_params { unsigned *out; long long blocks; };\n"
    "extern \"C\" __global__ void __launch_bounds__(32, 1) md_kernel(const __grid_constant__ md_params p)\n"
    "{\n"
    "    extern __shared__ unsigned room[];\n"
    "    if (p.blocks == 0) return;\n"
    "    unsigned rank, n, mine, theirs, value, bytes;\n"
    "    asm(\"mov.u32 %0, %%cluster_ctarank; mov.u32 %1, %%cluster_nctarank; mov.u32 %2, %%dynamic_smem_size;\" : "
    "\"=r\"(rank), \"=r\"(n), \"=r\"(bytes));\n"
    "    if (threadIdx.x == 0) room[bytes / 4 - 1] = rank + 100;\n"
    "    asm volatile(\"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\" ::: \"memory\");\n"
    "    mine = (unsigned)__cvta_generic_to_shared(&room[bytes / 4 - 1]);\n"
    "    asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(theirs) : \"r\"(mine), \"r\"((rank + 1) % "
    "n));\n"
    "    asm volatile(\"ld.shared::cluster.u32 %0, [%1];\" : \"=r\"(value) : \"r\"(theirs) : \"memory\");\n"
    "    if (threadIdx.x == 0) p.out[blockIdx.x] = value;\n"
    "    asm volatile(\"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\" ::: \"memory\");\n"
    "}\n";

static void test_clusters(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    if (dev->facts.capability < 90)
        skip();
    md_dev_kernel *kernel = make(dev, cluster_text);
    void *out = NULL;
    unsigned got[32];
    assert_ok(dev->ops->alloc(&out, dev, sizeof got));
    for (int32_t n = 2; n <= 16; n *= 2) {
        md_kn_word words[2] = {{.p = out}, {.i = 32}};
        md_kn_geometry g = grid_of(32, 32);
        g.cluster = n;
        g.scratch_bytes = dev->facts.shared_per_block;
        assert_ok(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){words, 2}, NULL));
        assert_ok(dev->ops->copy(dev, got, out, sizeof got));
        for (int32_t i = 0; i < 32; i++)
            assert_int_equal(got[i], 100 + (i % n + 1) % n);
    }
    dev->ops->free(dev, out);
    dev->ops->unload(dev, kernel);
}

/* The first thread that finds something reports it, as device/cuda.h says. */
static const char report_text[] =
    "struct md_report { unsigned is_set; int tensor, axis; long long value; md_report *host; };\n"
    "struct md_params { md_report *report; long long n; };\n"
    "extern \"C\" __global__ void __launch_bounds__(128) md_kernel(const __grid_constant__ md_params p)\n"
    "{\n"
    "    long long i = blockIdx.x * 128ll + threadIdx.x;\n"
    "    if (i < p.n && atomicExch(&p.report->is_set, 1u) == 0) {\n"
    "        volatile md_report *h = p.report->host;\n"
    "        h->tensor = 3; h->axis = 1; h->value = i + 1000;\n"
    "        __threadfence_system();\n"
    "        h->is_set = 1;\n"
    "    }\n"
    "}\n";

static void test_reports(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    md_dev_kernel *kernel = make(dev, report_text);
    md_dev_report report[300];
    for (int i = 0; i < 300; i++)
        assert_ok(dev->ops->report_create(&report[i], dev));
    assert_true(report[0].kernel != report[1].kernel && report[0].host != report[1].host &&
                report[0].kernel != report[0].host);
    for (int turn = 0; turn < 6; turn++) {
        const md_dev_report *r = &report[turn * 50];
        md_kn_word words[2] = {{.p = r->kernel}, {.i = turn % 3 == 2 ? 0 : 5000}};
        md_kn_geometry g = grid_of(40, 128);
        assert_false(r->host->is_set);
        for (int again = 0; again < 2; again++) {
            assert_ok(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){words, 2}, NULL));
            assert_ok(dev->ops->sync(dev, NULL));
            assert_int_equal(r->host->is_set, turn % 3 != 2);
            if (r->host->is_set)
                assert_true(r->host->tensor == 3 && r->host->axis == 1 && r->host->value >= 1000 &&
                            r->host->value < 6000);
            if (again == 0 && turn % 3 == 1)
                assert_ok(dev->ops->report_clear(dev, r));
        }
        assert_ok(dev->ops->report_clear(dev, r));
        assert_false(r->host->is_set);
        assert_false(report[turn * 50 + 1].host->is_set);
    }
    dev->ops->unload(dev, kernel);
}

static md_status answer(const md_kn_call *call)
{
    md_dev *dev = call->device;
    return scale(dev, call->stream, call->data[1], call->data[0], 3.0, call->blocks);
}

static void test_functions(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    md_kn_launch_source s = {.code = MD_KN_FUNCTION, .function = answer};
    md_dev_kernel *function = NULL, *kernel = make(dev, scale_text);
    float x[4] = {0, 1, 2, 3};
    md_kn_call call = {.blocks = 3};
    assert_ok(dev->ops->load(&function, dev, NULL, 0, &s));
    assert_ok(dev->ops->alloc(&call.data[0], dev, sizeof x));
    assert_ok(dev->ops->copy(dev, call.data[0], x, sizeof x));
    call.data[1] = kernel;
    assert_ok(dev->ops->launch(dev, NULL, function, &(md_kn_geometry){.blocks = 1}, (md_dev_params){NULL, 0}, &call));
    assert_ok(dev->ops->copy(dev, x, call.data[0], sizeof x));
    assert_true(x[0] == 1 && x[1] == 4 && x[2] == 7 && x[3] == 3);
    dev->ops->free(dev, call.data[0]);
    dev->ops->unload(dev, function);
    dev->ops->unload(dev, kernel);
}

/* Random tensors: sizes 0 to 5, any order of axes, gaps, repeated elements in the source. */
static void test_copy_tensor(void **state)
{
    static const md_dtype dtypes[] = {MD_U8, MD_F16, MD_F32, MD_F64};
    enum { ROOM = 20000 };
    md_dev *dev = ((fixture *)*state)->dev;
    uint64_t seed = check_seed();
    char *from = malloc(ROOM * 8), *to = malloc(ROOM * 8), *back = malloc(ROOM * 8);
    void *device[2];
    for (int i = 0; i < ROOM * 8; i++)
        from[i] = (char)check_random(&seed);
    for (int i = 0; i < 2; i++)
        assert_ok(dev->ops->alloc(&device[i], dev, ROOM * 8));
    assert_ok(dev->ops->copy(dev, device[0], from, ROOM * 8));
    for (int turn = 0; turn < 150; turn++) {
        md_tensor a = {.data = device[0], .dtype = dtypes[turn % 4], .rank = (int32_t)(check_random(&seed) % 6)}, b = a;
        size_t item = md_dtype_size(a.dtype);
        int64_t n = 1, stride[2] = {1, 1};
        b.data = device[1];
        for (int32_t i = 0; i < a.rank; i++)
            n *= a.size[i] = b.size[i] =
                turn % 30 ? 1 + (int64_t)(check_random(&seed) % 5) : (int64_t)(check_random(&seed) % 3);
        for (int side = 0; side < 2; side++) {
            md_tensor *t = side ? &b : &a;
            int32_t first = (int32_t)(check_random(&seed) % 7);
            for (int32_t k = a.rank; k-- > 0;) {
                int32_t axis = turn % 2 ? (k + first) % a.rank : k;
                t->stride[axis] = side == 0 && check_random(&seed) % 6 == 0 ? 0 : stride[side];
                stride[side] *= t->size[axis] > 0 ? t->size[axis] : 1;
                stride[side] += turn % 3 == 0 ? (int64_t)(check_random(&seed) % 3) : 0;
            }
        }
        if (stride[0] > ROOM || stride[1] > ROOM)
            continue;
        memset(to, 0x5a, ROOM * 8);
        assert_ok(dev->ops->copy(dev, device[1], to, ROOM * 8));
        assert_ok(dev->ops->copy_tensor(dev, NULL, &b, &a));
        assert_ok(dev->ops->copy(dev, back, device[1], ROOM * 8));
        for (int64_t i = 0; i < n; i++) {
            int64_t rest = i, at[2] = {0, 0};
            for (int32_t k = a.rank; k-- > 0; rest /= a.size[k]) {
                at[0] += rest % a.size[k] * a.stride[k];
                at[1] += rest % a.size[k] * b.stride[k];
            }
            memcpy(to + (size_t)at[1] * item, from + (size_t)at[0] * item, item);
        }
        assert_memory_equal(to, back, ROOM * 8);
    }
    for (int i = 0; i < 2; i++)
        dev->ops->free(dev, device[i]);
    free(from);
    free(to);
    free(back);
}

int main(void)
{
    static fixture f;
    if (!fixture_open(&f))
        return f.exit_code;
#define TEST(name) cmocka_unit_test_prestate(name, &f)
    const struct CMUnitTest tests[] = {
        TEST(test_facts),         TEST(test_names),     TEST(test_memory),       TEST(test_pointers),
        TEST(test_out_of_memory), TEST(test_bad_texts), TEST(test_bad_binaries), TEST(test_refused_launches),
        TEST(test_clusters),      TEST(test_reports),   TEST(test_functions),    TEST(test_copy_tensor),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close(&f);
    return n_failed;
}
