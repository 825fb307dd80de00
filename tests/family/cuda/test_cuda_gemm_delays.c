/* Products on tensor cores whose copiers and multipliers sleep at random at every barrier, and whose stages hold NaN
 * before a copy fills them; likewise rows by clusters, and attention. What is right only because some side is always
 * faster gives other results than the reference. The hooks are MD_TEST_PAUSE and MD_TEST_POISON of src/kernels/cuda/
 * (tma.h, gemm_wgmma.cu, gemm_mma.cu, row_cluster.cu, chain_wgmma_copy.h, chain_mma.cu, chain_split.cu, chain_meet.h);
 * this program stands before the compiler and defines them in front of each text. The device is said to hold one block
 * (or cluster), which so has all tiles or rows, and fills its ring many times over.
 *
 * Without a GPU the texts are compiled, and not run. MD_TEST_EFFORT: calls with each variant's data (2);
 * MD_TEST_FORMULA: one of the list by number; MD_TEST_PLAIN=1: the same calls without delays, to see what a failure
 * comes from. */
#include "device/suite_call.h"

#include "family/cuda/gate_fixture.h"

#include "api/context.h"

#include "base/status.h"

enum { MOST_VARIANTS = 12, BLOCKS = 1 };

/* A sleep of up to 2 or 4 us at one place in three, else none; every 16384 clocks others are slow: copiers,
 * multipliers, both, one warp. The clock stands for the turn. NaN: in 16 bytes of each 128, and of other columns in
 * each line; it is one in every type of operands. */
static const char hooks[] =
    "static __device__ __forceinline__ void md_test_pause(unsigned place)\n"
    "{\n"
    "    unsigned now;\n"
    "    asm volatile(\"mov.u32 %0, %%clock;\" : \"=r\"(now));\n"
    "    const unsigned warp = threadIdx.x / 32, kind = (blockIdx.x + (now >> 14)) & 3;\n"
    "    unsigned x = place * 0x9e3779b1u ^ blockIdx.x * 0x85ebca6bu ^ warp * 0xc2b2ae35u ^ (now >> 8) * 0x27d4eb2fu ^ "
    "MD_TEST_SEED;\n"
    "    x = (x ^ x >> 15) * 0x2c1b3c6du;\n"
    "    x = (x ^ x >> 12) * 0x297a2d39u;\n"
    "    x ^= x >> 15;\n"
    "    const bool is_slow = kind == 0 ? warp < 4 : kind == 1 ? warp >= 4 : kind == 2 || (warp ^ MD_TEST_SEED >> 8) % "
    "8 == 0;\n"
    "    if (is_slow && x % 3 == 0)\n"
    "        __nanosleep(x >> 8 & (x & 64 ? 2047 : 255));\n"
    "}\n"
    "static __device__ __forceinline__ void md_test_poison(unsigned to, int bytes, int thread, int threads)\n"
    "{\n"
    "    for (int i = thread; i < bytes / 128; i += threads)\n"
    "        asm volatile(\"st.shared.v4.b32 [%0], {%1, %1, %1, %1};\" ::\"r\"(to + i * 128 + i * 5 % 8 * 16), "
    "\"r\"(0x7fff7fff) : \"memory\");\n"
    "}\n"
    "#define MD_TEST_PAUSE(place) md_test_pause((unsigned)(place))\n"
    "#define MD_TEST_POISON(to, bytes) (md_test_poison(to, bytes, 0, 1), md_proxy_fence())\n"
    "#define MD_TEST_POISON_TOGETHER(to, bytes) (md_test_poison(to, bytes, threadIdx.x, blockDim.x), __syncthreads())\n"
    "MD_INLINE void md_proxy_fence(void);\n";

/* The mistake that the test must find: a stage given back long before it is read, so that NaN and the next copy lie
 * there by then. The counts of the barriers stay right. */
static const struct {
    const char *right, *wrong;
} mistakes[] = {
    {"md_wgmma_fence();\n        MD_FOR (k, 4 * MD_DEEP)",
     "md_release(empty + r.stage * 8);\n        __nanosleep(20000);\n        md_wgmma_fence();\n        MD_FOR (k, 4 * "
     "MD_DEEP)"},
    {"if (i > 0)\n            md_release(before);", ""},
    {"if (steps > 0)\n        md_release(before);", ""},
};

static struct {
    uint64_t seed;
    bool is_wrong, is_plain;
    int n_texts, n_wrong; /* with hooks; with mistakes */
} now;

md_status __real_md_dev_nvrtc_compile(void **binary, size_t *n_bytes, md_strbuf *log, const char *text,
                                      const char *arch);
md_status __wrap_md_dev_nvrtc_compile(void **binary, size_t *n_bytes, md_strbuf *log, const char *text,
                                      const char *arch);
md_status __real_md_dev_nvrtc_check(md_dev_cubin *out, const void *binary, size_t n_bytes, const char *log,
                                    const char *text, const char *entry);
md_status __wrap_md_dev_nvrtc_check(md_dev_cubin *out, const void *binary, size_t n_bytes, const char *log,
                                    const char *text, const char *entry);

static void make_mistakes(md_strbuf *text)
{
    for (size_t i = 0; i < MD_COUNT(mistakes); i++) {
        md_strbuf out = {0};
        const char *all = md_strbuf_text(text), *at = strstr(all, mistakes[i].right);
        if (!at)
            return;
        md_strbuf_printf(&out, "%.*s%s%s", (int)(at - all), all, mistakes[i].wrong, at + strlen(mistakes[i].right));
        md_strbuf_finish(text);
        *text = out;
    }
    now.n_wrong++;
}

md_status __wrap_md_dev_nvrtc_compile(void **binary, size_t *n_bytes, md_strbuf *log, const char *text,
                                      const char *arch)
{
    md_strbuf all = {0};
    if (now.is_plain)
        return __real_md_dev_nvrtc_compile(binary, n_bytes, log, text, arch);
    md_strbuf_printf(&all, "#define MD_TEST_SEED %uu\n#define MD_INLINE static __device__ __forceinline__\n%s%s",
                     (unsigned)check_random(&now.seed), hooks, text);
    if (now.is_wrong)
        make_mistakes(&all);
    now.n_texts += strstr(text, "MD_TEST_PAUSE(") != NULL;
    md_status s = __real_md_dev_nvrtc_compile(binary, n_bytes, log, md_strbuf_text(&all), arch);
    md_strbuf_finish(&all);
    return s;
}

/* With hooks a kernel may spill. */
md_status __wrap_md_dev_nvrtc_check(md_dev_cubin *out, const void *binary, size_t n_bytes, const char *log,
                                    const char *text, const char *entry)
{
    (void)text;
    return __real_md_dev_nvrtc_check(out, binary, n_bytes, log, "MD_ALLOW_STACK", entry);
}

typedef struct delayed {
    const char *text;
    md_dtype dtype;
    int64_t size[3][MD_MAX_RANK]; /* by dim */
    const char *variant[MOST_VARIANTS];
    int32_t stage;
} delayed;

/* First regular shapes, then ragged ones; those that a variant's copies cannot read are skipped, and one at least is
 * not. */
static const delayed list[] = {
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])",
     MD_BF16,
     {{128, 256, 320}, {136, 200, 440}, {131, 77, 653}},
     {"gemm_wgmma/rows128_columns64_pingpong0_cluster1_split1_epilogue1_pad0",
      "gemm_wgmma/rows64_columns32_pingpong0_cluster1_split1_epilogue0_pad0",
      "gemm_wgmma/rows128_columns64_pingpong1_cluster1_split1_epilogue1_pad0",
      "gemm_wgmma/rows128_columns32_pingpong1_cluster2_split1_epilogue0_pad0",
      "gemm_wgmma/rows64_columns32_pingpong0_cluster2_split1_epilogue1_pad0",
      "gemm_wgmma/rows64_columns64_pingpong0_cluster4_split4_epilogue0_pad0",
      "gemm_wgmma/rows128_columns32_pingpong0_cluster1_split2_epilogue0_pad0",
      "gemm_wgmma/rows64_columns16_pingpong0_cluster1_split1_epilogue0_pad1",
      "gemm_wgmma/rows64_columns64_pingpong0_cluster1_split1_epilogue2_pad0",
      "gemm_wgmma/rows128_columns64_pingpong1_cluster1_split1_epilogue2_pad1",
      "gemm_swapped/rows128_columns136_pingpong0_cluster1", "gemm_swapped/rows128_columns64_pingpong1_cluster2"}},
    {"Y[i,j] = sum[k](X[k,i] * W[k,j])",
     MD_F16,
     {{128, 256, 320}, {136, 200, 440}, {131, 77, 653}},
     {"gemm_wgmma/rows128_columns64_pingpong0_cluster2_split1_epilogue1_pad0",
      "gemm_wgmma/rows64_columns128_pingpong0_cluster2_split1_epilogue0_pad0",
      "gemm_wgmma/rows128_columns64_pingpong1_cluster1_split1_epilogue1_pad0",
      "gemm_wgmma/rows64_columns64_pingpong0_cluster3_split3_epilogue0_pad0",
      "gemm_wgmma/rows128_columns64_pingpong1_cluster1_split1_epilogue0_pad1",
      "gemm_mma/rows64_columns64_stages3_split1", "gemm_mma/rows128_columns64_stages4_split2",
      "gemm_swapped/rows64_columns72_pingpong0_cluster1"}},
    {"Y[i,j] = silu(sum[k](X[i,k] * W[j,k])) * sum[k](X[i,k] * V[j,k])",
     MD_BF16,
     {{128, 128, 320}, {136, 72, 584}, {65, 77, 331}},
     {"gemm_wgmma/rows128_columns64_pingpong0_cluster1_split1_epilogue1_pad0",
      "gemm_wgmma/rows64_columns64_pingpong0_cluster2_split2_epilogue0_pad0",
      "gemm_wgmma/rows128_columns64_pingpong1_cluster1_split1_epilogue0_pad0",
      "gemm_mma/rows16_columns128_stages3_split1", "gemm_swapped/rows256_columns72_pingpong0_cluster1"}},
    {"Y[i,j] = gelu(sum[k](X[i,k] * W[j,k]) + B[j])",
     MD_BF16,
     {{128, 256, 320}, {72, 264, 648}, {17, 77, 653}},
     {"gemm_wgmma/rows64_columns64_pingpong0_cluster1_split1_epilogue1_pad0",
      "gemm_wgmma/rows128_columns64_pingpong1_cluster2_split1_epilogue1_pad0",
      "gemm_wgmma/rows128_columns32_pingpong0_cluster1_split1_epilogue0_pad1",
      "gemm_mma/rows32_columns64_stages3_split1", "gemm_mma/rows16_columns64_stages4_split4"}},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])",
     MD_F32,
     {{128, 256, 320}, {136, 200, 328}, {132, 100, 204}}, /* tf32 */
     {"gemm_wgmma/rows128_columns64_pingpong0_cluster1_split1_epilogue0_pad0",
      "gemm_wgmma/rows64_columns32_pingpong0_cluster2_split1_epilogue0_pad0",
      "gemm_wgmma/rows128_columns32_pingpong1_cluster1_split1_epilogue0_pad0",
      "gemm_wgmma/rows64_columns64_pingpong0_cluster2_split2_epilogue0_pad0"}},
    {"Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]",
     MD_BF16,
     {{40, 9001}, {23, 4097}, {9, 20011}},
     {"row_cluster/lanes256_vecs1_blocks2_cluster4", "row_cluster/lanes128_vecs2_blocks1_cluster8",
      "row_cluster/lanes256_vecs2_blocks1_cluster1", "row_cluster/lanes128_vecs1_blocks3_cluster2"}},
    {"Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))",
     MD_F16,
     {{40, 9001}, {23, 4097}, {9, 20011}},
     {"row_cluster/lanes256_vecs2_blocks4_cluster8", "row_cluster/lanes512_vecs1_blocks1_cluster2",
      "row_cluster/lanes128_vecs4_blocks2_cluster1"}},
    {"Y[a] = var[n](X[a,n])",
     MD_BF16,
     {{40, 9001}, {23, 4097}, {9, 20011}},
     {"row_cluster/lanes128_vecs2_blocks4_cluster8", "row_cluster/lanes256_vecs1_blocks3_cluster2"}},
    {"let S[b,i,j] = where(j <= i, sum[d](Q:bf16[b,i,d] * K:bf16[b,j,d]), -inf); let P:bf16[b,i,j] = exp(S[b,i,j] - "
     "max[k](S[b,i,k])) / sum[k](exp(S[b,i,k] - max[l](S[b,i,l]))); Y:bf16[b,i,e] = sum[j](P[b,i,j] * V:bf16[b,j,e])",
     MD_F32,
     {{1, 300, 300, 64, 64}, {2, 201, 201, 64, 64}, {1, 129, 401, 64, 64}},
     {"chain_wgmma/depth64_width64_keys64_groups2_stages2_split1",
      "chain_wgmma/depth64_width64_keys128_groups2_stages3_split1",
      "chain_wgmma/depth64_width64_keys64_groups2_stages3_split1",
      "chain_wgmma/depth64_width64_keys64_groups2_stages2_split2"},
     .stage = 3},
    {"let S[b,i,j] = where(j <= i, sum[d](Q:bf16[b,i,d] * K:bf16[b,j,d]), -inf); let P[b,i,j] = exp(S[b,i,j] - "
     "max[k](S[b,i,k])) / sum[k](exp(S[b,i,k] - max[l](S[b,i,l]))); Y:bf16[b,i,e] = sum[j](P[b,i,j] * V:bf16[b,j,e])",
     MD_F32,
     {{1, 300, 300, 64, 64}, {2, 201, 201, 64, 64}, {1, 129, 401, 64, 64}},
     {"chain_mma/depth64_width64_keys64_warps4_row_tiles1_stages2_split1",
      "chain_mma/depth64_width64_keys32_warps8_row_tiles1_stages3_split1",
      "chain_mma/depth64_width64_keys64_warps4_row_tiles1_stages2_split2",
      "chain_wgmma/depth64_width64_keys64_groups2_stages2_split1"},
     .stage = 3},
    {"let S[b,h,j] = sum[d](Q:bf16[b,h,d] * K:bf16[b,h//4,j,d]); let P:bf16[b,h,j] = exp(S[b,h,j] - "
     "max[k](S[b,h,k])) / sum[k](exp(S[b,h,k] - max[l](S[b,h,l]))); Y:bf16[b,h,e] = sum[j](P[b,h,j] * "
     "V:bf16[b,h//4,j,e])",
     MD_F32,
     {{1, 8, 2000, 64, 64}, {2, 4, 777, 64, 64}, {1, 4, 31, 64, 64}},
     {"chain_split/depth64_width64_row_tiles1_warps4_stages3_meet0_length0",
      "chain_split/depth64_width64_row_tiles1_warps4_stages3_meet0_length512",
      "chain_split/depth64_width64_row_tiles1_warps8_stages3_meet4_length0",
      "chain_dot/depth64_width64_rows4_keys4_warps4_meet0_fill1_length0",
      "chain_dot/depth64_width64_rows4_keys4_warps4_meet4_fill1_length0",
      "chain_dot/depth64_width64_rows4_keys8_warps8_meet0_fill1_length512"},
     .stage = 3},
    {"let P:bf16[b,i,j] = where(j <= i, exp(sum[d](Q:bf16[b,i,d] * K:bf16[b,j,d]) * 0.06 - L:f32[b,i]), 0); let "
     "T:bf16[b,i,j] = P[b,i,j] * (sum[e](G:bf16[b,i,e] * V:bf16[b,j,e]) - w:f32[b,i]); A:bf16[b,i,d] = sum[j](T[b,i,j] "
     "* K[b,j,d]); B:bf16[b,j,d] = sum[i](T[b,i,j] * Q[b,i,d]); C:bf16[b,j,e] = sum[i](P[b,i,j] * G[b,i,e])",
     MD_F32,
     {{1, 300, 300, 64, 64}, {2, 201, 201, 64, 64}, {1, 129, 401, 64, 64}},
     {"pairs_joint/depth64_width64_stages2_split1_order0", "pairs_joint/depth64_width64_stages3_split1_order1",
      "pairs_joint/depth64_width64_stages2_split2_order1", "pairs_wgmma/depth64_width64_block64_stages2",
      "pairs_wgmma/depth64_width64_block32_stages4", "pairs_mma/depth64_width64_warps4_row_tiles1_block32_stages2",
      "pairs_mma/depth64_width64_warps8_row_tiles2_block16_stages3"},
     .stage = 5},
};

static bool takes_tf32(const delayed *d)
{
    return d->dtype == MD_F32 && d->stage == 0;
}

/* `size`: room for the sizes of shape k. */
static data_options shape_of(int64_t size[MD_FX_MAX_DIMS], const delayed *d, int k)
{
    for (int32_t i = 0; i < MD_FX_MAX_DIMS; i++)
        size[i] = i < MD_MAX_RANK && d->size[k][i] > 0 ? d->size[k][i] : -1;
    return (data_options){.view = DATA_CONTIGUOUS, .size = size, .max_work = 100000000, .keeps_reductions = true};
}

static bool is_chosen(int i)
{
    const char *only = getenv("MD_TEST_FORMULA");
    return !only || atoi(only) == i;
}

/* ---- Compiled */
static int compile_variant(const md_fa_target *target, const char *name)
{
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_source source = {0};
    int n_failed = 0;
    md_status s = md_fa_parse(&family, &config, MD_DEV_CUDA, name);
    if (s == MD_OK)
        s = md_fa_emit(&source, family, target, &config);
    if (s == MD_OK)
        s = gate_compile_all(&source, target->facts->arch);
    if (s != MD_OK) {
        print_error("%s: %s\n", name, md_last_error());
        n_failed++;
    }
    md_kn_source_finish(&source);
    return n_failed;
}

/* What the reference refuses no variant would be checked at. */
static void test_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < (int)MD_COUNT(list); i++) {
        md_fx_formula *formula = NULL;
        assert_ok(md_fx_formula_create(&formula, list[i].text, &(md_fx_options){.dtype = list[i].dtype}));
        assert_ok(md_st_split(formula));
        for (int k = 0; k < 3; k++) {
            int64_t size[MD_FX_MAX_DIMS];
            const data_options o = shape_of(size, &list[i], k);
            data_set set;
            if (!data_make(&set, formula, 1, &o))
                fail_msg("entry %d, shape %d is too large for the reference", i, k);
            data_finish(&set);
        }
        md_fx_formula_destroy(&formula);
    }
}

static bool is_full;
static uint64_t sample_seed;

static bool is_of_family(const char *variant, const char *other)
{
    return !strncmp(variant, other, strcspn(variant, "/") + 1);
}

/* Of those of its family after the first formula the one that the seed picks. */
static bool is_drawn(int of, int at)
{
    uint64_t before = 0, all = 0;
    for (int i = 1; i < (int)MD_COUNT(list); i++)
        for (int v = 0; v < MOST_VARIANTS && list[i].variant[v]; v++)
            if (is_of_family(list[of].variant[at], list[i].variant[v])) {
                before += i < of || (i == of && v < at);
                all++;
            }
    return sample_seed % all == before;
}

/* Without --full half of the first's, of which there are two kinds of texts, and one of each family. */
static bool is_compiled(int i, int v)
{
    return is_chosen(i) && (is_full || (i == 0 ? v % 2 == 0 : is_drawn(i, v)));
}

static void test_compiles(void **state)
{
    (void)state;
    int n_failed = 0, n = 0, n_plain = 0; /* variants none of whose texts has hooks */
    md_dev_facts facts;
    now.seed = sample_seed = check_seed();
    now.n_texts = now.n_wrong = 0;
    assert_ok(md_dev_cuda_assume(&facts, 90));
    for (int i = 0; i < (int)MD_COUNT(list); i++) {
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        const md_fx_options options = {.dtype = list[i].dtype};
        assert_ok(md_fx_formula_create(&formula, list[i].text, &options));
        assert_ok(md_st_split(formula));
        assert_ok(md_st_program_create(&program, formula));
        const md_fa_target target = {
            .program = program, .stage = list[i].stage, .facts = &facts, .allows_tf32 = takes_tf32(&list[i])};
        now.is_wrong = i == 0; /* both kinds of texts */
        for (int v = 0; v < MOST_VARIANTS && list[i].variant[v]; v++) {
            const int before = now.n_texts;
            if (!is_compiled(i, v))
                continue;
            n++;
            n_failed += compile_variant(&target, list[i].variant[v]);
            n_plain += now.n_texts == before;
        }
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
    now.is_wrong = false;
    print_message("%d variants compiled, %d texts with delays, %d with mistakes\n", n, now.n_texts, now.n_wrong);
    assert_int_equal(n_failed, 0);
    assert_int_equal(n_plain, 0);
    assert_true(now.n_wrong == MOST_VARIANTS / (is_full ? 1 : 2) || !is_chosen(0));
}

/* ---- Run */
static void add_sets(suite *s, suite_formula *f, const delayed *d, uint64_t *seed)
{
    for (int k = 0; k < 3; k++) {
        int64_t size[MD_FX_MAX_DIMS];
        const data_options o = shape_of(size, d, k);
        suite_add(s, f, check_random(seed), &o);
    }
    if (f->n_sets != 3)
        suite_complain(s, f, -1, NULL, "a shape is too large for the reference");
    /* tf32 keeps 11 bits of an operand where f32 keeps 24: far more than that is lost where a stage is stale, or
     * NaN. */
    for (int k = 0; takes_tf32(d) && k < f->n_sets; k++)
        for (int32_t t = 0; t < f->formula->n_tensors; t++)
            for (int64_t i = 0; f->formula->tensor[t].role == MD_FX_OUTPUT && i < f->result[k][t].n; i++)
                f->result[k][t].error[i] *= 1024;
}

static bool begin(suite *s, suite_formula *f, const delayed *d, uint64_t *seed)
{
    if (!suite_begin(s, f, d->text,
                     &(md_op_options){.dtype = d->dtype, .hints = "16", .max_variants = 1, .tf32 = takes_tf32(d)}))
        return false;
    add_sets(s, f, d, seed);
    return true;
}

static void run_variant(suite *s, suite_formula *f, int32_t stage, const char *name, int effort)
{
    const int n_texts = now.n_texts;
    for (int n = 0; n < effort; n++) {
        const int64_t n_calls = s->n_calls - s->n_skipped;
        suite_check_variant(s, f, stage, name);
        if (s->n_calls - s->n_skipped == n_calls)
            suite_complain(s, f, -1, name, "it was not run");
    }
    if (now.n_texts == n_texts && !now.is_plain)
        suite_complain(s, f, -1, name, "it was not compiled with delays");
}

static void test_delays(void **state)
{
    suite *s = *state;
    const char *text = getenv("MD_TEST_EFFORT");
    uint64_t seed = check_seed();
    for (int i = 0; i < (int)MD_COUNT(list); i++) {
        suite_formula f;
        if (!is_chosen(i))
            continue;
        if (begin(s, &f, &list[i], &seed))
            for (int v = 0; v < MOST_VARIANTS && list[i].variant[v]; v++)
                run_variant(s, &f, list[i].stage, list[i].variant[v], text ? MD_MAX(atoi(text), 1) : 2);
        suite_end(&f);
    }
    print_message("%lld variants, %lld calls (%lld did not fit), %lld elements, %lld unchecked\n",
                  (long long)s->n_variants, (long long)s->n_calls, (long long)s->n_skipped, (long long)s->n_elements,
                  (long long)s->n_unchecked);
    assert_int_equal(s->n_failed, 0);
}

/* A kernel that gives its stages back too early is found. */
static void test_mistake(void **state)
{
    suite *s = *state;
    uint64_t seed = check_seed();
    suite_formula f;
    const int n_failed = s->n_failed;
    const int64_t n_calls = s->n_calls - s->n_skipped;
    if (!is_chosen(0) || now.is_plain)
        skip();
    now.is_wrong = true;
    now.n_wrong = 0;
    print_message("what is reported now is as it should be\n");
    if (begin(s, &f, &list[0], &seed)) /* of columns that no other test builds */
        suite_check_variant(s, &f, 0, "gemm_wgmma/rows128_columns96_pingpong0_cluster1_split1_epilogue0_pad0");
    suite_end(&f);
    now.is_wrong = false;
    const int n_found = s->n_failed - n_failed;
    s->n_failed = n_failed;
    print_message("%d texts with mistakes, %lld calls, found %d times\n", now.n_wrong,
                  (long long)(s->n_calls - s->n_skipped - n_calls), n_found);
    assert_true(now.n_wrong > 0);
    assert_true(s->n_calls - s->n_skipped > n_calls);
    assert_true(n_found > 0);
}

int main(int argc, char **argv)
{
    is_full = argc > 1 && strcmp(argv[1], "--full") == 0;
    md_dev_nvrtc nvrtc;
    suite_options options = {.device = "cuda", .bounds.moves_rounding = true}; /* of attention */
    suite s = {.options = &options};
    const struct CMUnitTest compiling[] = {cmocka_unit_test(test_compiles), cmocka_unit_test(test_shapes)};
    const struct CMUnitTest running[] = {cmocka_unit_test_prestate(test_delays, &s),
                                         cmocka_unit_test_prestate(test_mistake, &s)};
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        print_message("DELAYED PRODUCTS NEITHER COMPILED NOR RUN: %s\n", md_last_error());
        return 77;
    }
    if (md_context_create(&s.context, &(md_context_options){.device = options.device}) != MD_OK ||
        s.context->dev->facts.capability != 90) {
        print_message("DELAYED PRODUCTS COMPILED, NOT RUN ON A GPU: %s\n",
                      s.context ? "none of Hopper's" : md_last_error());
        md_context_destroy(&s.context);
        return cmocka_run_group_tests_name("compiled", compiling, NULL, NULL);
    }
    s.context->dev->facts.threads = BLOCKS;
    now.seed = check_seed();
    now.is_plain = getenv("MD_TEST_PLAIN") != NULL;
    int failed = cmocka_run_group_tests_name("run", running, NULL, NULL);
    md_context_destroy(&s.context);
    return failed;
}
