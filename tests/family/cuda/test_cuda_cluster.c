/* Family row_cluster without a GPU: which stages it serves, what a block has room for, how it is launched, and that its
 * texts compile. test_cuda_split_run runs it. */
#include "support/check.h"

#include "base/dtype.h"
#include "base/status.h"
#include "device/cuda/cuda.h"
#include "expr/formula.h"
#include "family/cuda/cuda.h"
#include "stage/stage.h"
#include "tune/tune.h"
#include "family/cuda/gate_fixture.h"

#include <stdlib.h>

extern const md_fa_family md_fa_cuda_row_cluster, md_fa_cuda_row_shared;

enum { LANES, VECTORS, BLOCKS, CLUSTER }; /* fields */

static const char *const layer_norm =
                             "Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]",
                         *const softmax =
                             "Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))",
                         *const var = "Y[a] = var[n](X[a,n])",
                         *const mixed = "Y[a,n] = X[a,n] * rsqrt(mean[k](X[a,k] * X[a,k]) + 1e-6) * G:f32[n] + B[n]";

/* Stages that read one tensor along the row, more than once, and besides it only what rows share. */
static void it_serves_rows_that_are_needed_again(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool applies;
    } list[] = {
        {layer_norm, true},
        {softmax, true},
        {var, true},
        {"Y[a] = sum[n](X[a,n])", false}, /* needs the row once */
        {"Y[a,n] = (X[a,n] + D[a,n]) * rsqrt(mean[k](X[a,k] * X[a,k]) + 1e-6)", false},
        {"Y[a,n] = X[a,n+1] - max[k](X[a,k])", false}, /* does not lie on boundaries */
    };
    for (int32_t i = 0; i < (int32_t)MD_COUNT(list); i++) {
        fixture f;
        open_fixture(&f, list[i].text, MD_F32);
        if (md_fa_cuda_row_cluster.applies(&f.target) != list[i].applies)
            fail_msg("%s", list[i].text);
        assert_ok(md_dev_cuda_assume(&f.facts, 80)); /* has no clusters */
        assert_false(md_fa_cuda_row_cluster.applies(&f.target));
        close_fixture(&f);
    }
}

/* Clusters of each size that fit the GPCs of a board, for one block on each SM. */
static int64_t clusters_of(const int32_t *gpc, int32_t n, int32_t cluster)
{
    int64_t clusters = 0;
    for (int32_t i = 0; i < n; i++)
        clusters += gpc[i] / cluster;
    return clusters;
}

/* However the SMs of a board are spread over GPCs of 14, 16 and 18, all clusters have places, and on the worst board
 * no more would. */
static void clusters_have_places_on_every_board(void **state)
{
    (void)state;
    enum { GPCS = 8, WAYS = 6561 };
    static const int32_t boards[] = {112, 114, 120, 124, 128, 130, 132, 136, 144};
    for (int32_t b = 0; b < MD_COUNT(boards); b++)
        for (int32_t cluster = 1; cluster <= 8; cluster *= 2) {
            const md_dev_facts facts = {.threads = boards[b]};
            int64_t least = INT64_MAX;
            for (int32_t way = 0; way < WAYS; way++) {
                int32_t gpc[GPCS], sms = 0;
                for (int32_t i = 0, left = way; i < GPCS; i++, left /= 3)
                    sms += gpc[i] = 14 + 2 * (left % 3);
                if (sms == boards[b])
                    least = MD_MIN(least, clusters_of(gpc, GPCS, cluster));
            }
            assert_int_equal(md_fa_cuda_clusters(&facts, cluster, 1), least);
            assert_int_equal(md_fa_cuda_clusters(&facts, cluster, 3), 3 * least);
        }
    assert_int_equal(md_fa_cuda_clusters(&(md_dev_facts){.threads = 132}, 8, 1), 13);
    assert_int_equal(md_fa_cuda_clusters(&(md_dev_facts){.threads = 132}, 4, 3), 87);
    for (int32_t sms = 0; sms < 40; sms++) /* parts of a board */
        assert_in_range(md_fa_cuda_clusters(&(md_dev_facts){.threads = sms}, 8, 1), 1, MD_MAX(sms / 8, 1));
}

typedef struct visit {
    fixture *f;
    const int64_t *size;
    int64_t weight_bytes; /* of a vector's elements */
    int32_t n;
} visit;

/* As the kernel counts: chunks of a block's part of a row, and chunks of its ring. */
static void count_chunks(int64_t *chunks, int64_t *ring, const visit *v, const md_fa_config *config, int64_t n,
                         int64_t room)
{
    const int64_t width = md_fa_cuda_width(v->f->program, 0), cluster = config->value[CLUSTER],
                  vectors = (n / width + cluster - 1) / cluster,
                  chunk = (int64_t)config->value[LANES] * config->value[VECTORS];
    *chunks = MD_MAX((vectors + chunk - 1) / chunk, 1);
    *ring = (room - vectors * v->weight_bytes) / (chunk * 16);
    *ring = MD_MIN(MD_MIN(*ring, 64), 4 * *chunks);
}

static bool check_config(void *user, const md_fa_config *config)
{
    visit *v = user;
    const int64_t blocks = config->value[BLOCKS], cluster = config->value[CLUSTER];
    md_kn_shape shape = {.size = {v->size[0], v->size[1]}};
    md_kn_envelope envelope;
    md_kn_geometries g;
    int64_t chunks, ring;
    shape.unit = shape.aligned = shape.aligned16 = shape.contiguous = UINT32_MAX;
    v->n++;
    md_fa_envelope_of(&envelope, &md_fa_cuda_row_cluster, &v->f->target, config);
    assert_null(md_kn_envelope_miss(&envelope, &shape));
    md_fa_geometry_of(&g, &md_fa_cuda_row_cluster, &v->f->target, config, &shape);
    const md_kn_geometry *launch = &g.launch[0];
    assert_int_equal(launch->cluster, cluster);
    assert_int_equal(launch->blocks % cluster, 0);
    assert_in_range(launch->blocks, cluster, v->f->facts.threads * blocks);
    assert_int_equal(launch->block[0], config->value[LANES] + 32);
    assert_true((launch->scratch_bytes + 3072) * blocks <= v->f->facts.shared_per_sm);
    assert_true(launch->scratch_bytes + 2048 <= v->f->facts.shared_per_block);
    count_chunks(&chunks, &ring, v, config, v->size[1], launch->scratch_bytes);
    assert_true(ring > chunks);
    /* The longest row of the envelope still fits; a row more than the GPU's clusters takes no more blocks. */
    count_chunks(&chunks, &ring, v, config, envelope.row_points_max, launch->scratch_bytes);
    assert_true(ring >= chunks && chunks > 0);
    shape.size[1] = envelope.row_points_max;
    assert_null(md_kn_envelope_miss(&envelope, &shape));
    shape.size[1] = envelope.row_points_max + 1;
    assert_non_null(md_kn_envelope_miss(&envelope, &shape));
    assert_true(md_tn_predict_us(&v->f->target, &md_fa_cuda_row_cluster, config, v->size) > 0);
    return true;
}

static void blocks_have_room_for_their_part(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{2000, 40001}, {400, 100003}, {4097, 12289}, {1000, 70001}};
    static const int64_t others[][2] = {{8, 100003}, {20000, 4097}, {2000, 40000}, {1000, 20000001}};
    for (int32_t i = 0; i < 4; i++) {
        fixture f;
        open_fixture(&f, i & 1 ? softmax : layer_norm, i & 2 ? MD_BF16 : MD_F32);
        visit v = {.f = &f, .weight_bytes = i & 1 ? 0 : 32};
        for (int32_t k = 0; k < MD_COUNT(shapes); k++) {
            v.n = 0;
            v.size = shapes[k];
            md_fa_each_all(&f.target, &md_fa_cuda_row_cluster, v.size, check_config, &v);
            if (v.n == 0)
                fail_msg("formula %d: no config for %lld x %lld", i, (long long)v.size[0], (long long)v.size[1]);
        }
        v.n = 0;
        for (int32_t k = 0; k < MD_COUNT(others); k++)
            md_fa_each_all(&f.target, &md_fa_cuda_row_cluster, others[k], check_config, &v);
        assert_int_equal(v.n, 0);
        close_fixture(&f);
    }
}

/* The texts compile without stack and spills, for as many blocks on an SM as their names say. Needs NVRTC, no GPU. */
static void the_texts_compile(void **state)
{
    (void)state;
    const struct {
        const char *formula;
        md_dtype dtype;
        const char *variant;
    } list[] = {{layer_norm, MD_F32, "row_cluster/lanes256_vecs2_blocks2_cluster8"},
                {layer_norm, MD_BF16, "row_cluster/lanes256_vecs1_blocks3_cluster4"},
                {softmax, MD_F32, "row_cluster/lanes256_vecs2_blocks4_cluster2"},
                {softmax, MD_F16, "row_cluster/lanes512_vecs4_blocks1_cluster1"},
                {mixed, MD_BF16, "row_cluster/lanes128_vecs2_blocks4_cluster8"},
                {var, MD_BF16, "row_cluster/lanes128_vecs4_blocks3_cluster4"}};
    enum { REGISTERS = 255 }; /* any: what must fit is the memory */
    need_nvrtc();
    for (int32_t i = 0; i < (int32_t)MD_COUNT(list); i++) {
        fixture f;
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_source source = {0};
        open_fixture(&f, list[i].formula, list[i].dtype);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, list[i].variant));
        assert_ok(md_fa_emit(&source, family, &f.target, &config));
        const md_dev_cubin about = compile_gate(&source.launch[0], &f, list[i].variant, REGISTERS);
        md_kn_geometries g;
        const md_kn_shape shape = {.size = {2000, 20001}};
        md_fa_geometry_of(&g, family, &f.target, &config, &shape);
        const int64_t shared = about.shared_bytes + g.launch[0].scratch_bytes;
        if ((shared + 1024) * config.value[BLOCKS] > f.facts.shared_per_sm || shared > f.facts.shared_per_block)
            fail_msg("%s: %lld bytes of shared memory", list[i].variant, (long long)shared);
        md_kn_source_finish(&source);
        close_fixture(&f);
    }
}

/* Where the place of a store is known at run time only, NVRTC splits its vector into words unless it is told not to: in
 * stores of rows at no boundary that costs four times the accesses. */
static void vectors_are_stored_whole(void **state)
{
    (void)state;
    const md_fa_family *const list[] = {&md_fa_cuda_row_cluster, &md_fa_cuda_row_shared};
    for (int32_t i = 0; i < 2; i++) {
        fixture f;
        const md_fa_config config = md_fa_default(list[i]);
        md_kn_source source = {0};
        open_fixture(&f, softmax, MD_F32);
        assert_ok(md_fa_emit(&source, list[i], &f.target, &config));
        assert_non_null(strstr(md_strbuf_text(&source.launch[0].text), "#define MD_WHOLE_STORES 1"));
        md_kn_source_finish(&source);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_serves_rows_that_are_needed_again),
                                       cmocka_unit_test(clusters_have_places_on_every_board),
                                       cmocka_unit_test(blocks_have_room_for_their_part),
                                       cmocka_unit_test(the_texts_compile), cmocka_unit_test(vectors_are_stored_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
