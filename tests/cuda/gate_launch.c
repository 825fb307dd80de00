/* The gate of GPU kernels: launches at the hints' sizes must be within the limits of the GPU. */
#include "gate.h"
#include "support/constants.h"

#include "base/status.h"

enum { REGISTERS_PER_BLOCK = 65536, PORTABLE_CLUSTER = 8, LARGEST_CLUSTER = 16 };

/* No GPU holds more: hints of three dims on the diagonal may. */
static const double MOST_BYTES = 200e9;

/* Contiguous tensors, as well aligned as can be. */
static void make_shape(md_kn_shape *out, const md_fx_formula *formula, const int64_t *size)
{
    *out = (md_kn_shape){.contiguous = UINT32_MAX, .unit = UINT32_MAX, .aligned = UINT32_MAX, .aligned16 = UINT32_MAX};
    for (int32_t d = 0; d < formula->n_dims; d++)
        out->size[d] = size[d];
    for (int32_t t = 0; t < formula->n_tensors; t++) {
        int64_t stride = 1;
        for (int32_t a = formula->tensor[t].rank - 1; a >= 0; a--) {
            out->extent[t][a] = size[formula->tensor[t].dim[a]];
            out->stride[t][a] = stride;
            stride *= MD_MAX(out->extent[t][a], 1);
        }
    }
}

static md_status check_grid(const gate_case *c, const md_kn_geometry *g)
{
    int32_t cluster = MD_MAX(g->cluster, 1);
    if (g->grid[0] < 1 || g->grid[1] < 1 || g->grid[2] < 1 || g->grid[1] > 65535 || g->grid[2] > 65535)
        return md_fail(MD_COMPILE, "a grid of %d x %d x %d blocks", (int)g->grid[0], (int)g->grid[1], (int)g->grid[2]);
    if (cluster > 1 && (c->facts->capability < 90 || cluster > LARGEST_CLUSTER || g->grid[0] % cluster))
        return md_fail(MD_COMPILE, "clusters of %d blocks in a grid of %d", (int)cluster, (int)g->grid[0]);
    return MD_OK;
}

static md_status check_block(const gate_case *c, const md_kn_geometry *g, const md_dev_cubin *cubin)
{
    int64_t threads = (int64_t)g->block[0] * g->block[1] * g->block[2], warps = (threads + 31) / 32;
    int64_t registers = (cubin->registers + 7) / 8 * 8 * 32 * warps;
    int64_t shared = g->scratch_bytes + cubin->shared_bytes;
    if (threads < 1 || threads > 1024 || (cubin->max_threads > 0 && threads > cubin->max_threads))
        return md_fail(MD_COMPILE, "a block of %lld threads, %d in its launch bounds", (long long)threads,
                       (int)cubin->max_threads);
    if (registers > REGISTERS_PER_BLOCK)
        return md_fail(MD_COMPILE, "a block of %lld threads with %d registers each", (long long)threads,
                       (int)cubin->registers);
    if (shared > c->facts->shared_per_block)
        return md_fail(MD_COMPILE, "%lld bytes of shared memory a block, of %lld", (long long)shared,
                       (long long)c->facts->shared_per_block);
    return MD_OK;
}

static md_status check_size(const gate_case *c, int32_t launch, const md_dev_cubin *cubin, const int64_t *size)
{
    md_fa_target target = {
        .program = c->program, .stage = c->stage, .facts = c->facts, .constants = all_inputs(c->program->formula)};
    md_kn_shape shape;
    md_kn_envelope envelope = {{0}};
    md_kn_geometries plan = {{{0}}};
    double flops = 0.0, bytes = 0.0;
    md_st_work(&flops, &bytes, c->program, c->stage, size);
    if (bytes > MOST_BYTES)
        return MD_OK;
    make_shape(&shape, c->program->formula, size);
    md_fa_envelope_of(&envelope, c->family, &target, &c->config);
    if (md_kn_envelope_miss(&envelope, &shape))
        return MD_OK;
    md_fa_geometry_of(&plan, c->family, &target, &c->config, &shape);
    const md_kn_geometry *g = &plan.launch[launch];
    if (g->blocks == 0)
        return MD_OK;
    MD_TRY(check_grid(c, g));
    return check_block(c, g, cubin);
}

md_status gate_check_launch(const gate_case *c, const md_kn_launch_source *source, int32_t launch,
                            const md_dev_cubin *cubin)
{
    if (cubin->param_bytes - (source->n_maps > 0 ? 48 : 0) != 8 * source->n_params)
        return md_fail(MD_COMPILE, "%d parameters, but %d bytes of them in the kernel", (int)source->n_params,
                       (int)cubin->param_bytes);
    if (cubin->max_threads == 0)
        return md_fail(MD_COMPILE, "the kernel has no launch bounds");
    for (int32_t i = 0; i < GATE_SIZES; i++) {
        int64_t size[MD_FX_MAX_DIMS] = {0};
        gate_sizes(size, c->program->formula, i);
        MD_TRY(check_size(c, launch, cubin, size));
    }
    return MD_OK;
}
