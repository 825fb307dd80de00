/* Matrix products of both devices: their sizes and work at a shape, and the text of a host launch. */
#include "family/product.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cost.h"
#include "family/emit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static double operand_bytes(const md_fa_product *p, int32_t operand)
{
    const md_fx_node *load = p->p.load[operand];
    md_dtype dtype = load ? p->p.program->formula->tensor[load->id].dtype : p->p.type;
    return (double)(operand == MD_CG_A ? p->rows : p->columns) * (double)p->span * md_dtype_bytes(dtype);
}

static void count_epilogue(void *out, const md_st_program *program, int32_t stage, const void *user)
{
    md_st_stage epilogue = program->stage[stage];
    (void)user;
    epilogue.kind = MD_ST_NEST; /* so that only the epilogue is counted */
    md_fa_host_count(out, &epilogue, program);
}

void md_fa_product_measure(md_fa_product *out, const md_fa_target *target, const md_cg_product *product,
                           const int64_t *size)
{
    const md_st_program *program = target->program;
    const md_st_product *s = &program->stage[target->stage].product;
    double flops = 0;
    md_fa_host_work work;
    md_st_know(&work, program, target->stage,
               &(md_st_fact){.which = MD_ST_KNOWN_EPILOGUE, .n_bytes = sizeof work, .make = count_epilogue});
    *out =
        (md_fa_product){.p = *product, .epilogue_ops = work.operations, .epilogue_transcendental = work.transcendental};
    out->batch = md_st_points(program, s->n_batch, s->batch, size);
    out->rows = md_st_points(program, product->n_rows, product->rows, size);
    out->columns = md_st_points(program, product->n_columns, product->columns, size);
    out->depth = md_st_points(program, s->n_k, s->k, size);
    if (product->is_paired && product->dialect == MD_DEV_HOST)
        out->depth = (out->depth + 1) / 2;
    out->span = out->depth / MD_MAX(md_st_points(program, s->n_sharing, s->sharing, size), 1);
    md_st_work(&flops, &out->bytes, program, target->stage, size);
    out->a_bytes = (double)out->batch * operand_bytes(out, MD_CG_A);
}

double md_fa_product_b_bytes(const md_fa_product *work)
{
    double bytes = 0;
    for (int32_t o = MD_CG_B; o <= work->p.n_products; o++)
        bytes += work->p.load[o] ? operand_bytes(work, o) : 0;
    return bytes;
}

typedef struct constants {
    const md_fa_target *target;
    uint32_t tensors;
} constants;

static bool take_constant(void *user, const md_fx_node *node)
{
    constants *c = user;
    if (node->kind == MD_FX_SCALAR || node->kind == MD_FX_CHECK)
        return false;
    if (node->kind == MD_FX_LOAD) {
        const uint32_t bit = UINT32_C(1) << node->id;
        c->tensors |= bit;
        return c->target->constants & bit;
    }
    return true;
}

uint32_t md_fa_product_constants(const md_fa_target *target, const md_cg_product *product)
{
    const md_st_product *s = &md_fa_stage(target)->product;
    constants c = {.target = target};
    for (int32_t o = MD_CG_B; o <= product->n_products; o++)
        if (product->is_grouped || product->has_spans ||
            md_fx_uses_any_index(product->operand[o], s->n_batch, s->batch) ||
            !md_fx_visit(product->operand[o], take_constant, &c))
            return 0;
    return c.tensors;
}

double md_fa_product_cycles(const md_fa_target *target, double cycles)
{
    return cycles * md_fa_host_ops_per_cycle(target->facts);
}

/* ---- Groups */
enum { AXIS_BITS = 8 };

static const char *groups_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    const int32_t n = envelope->rule_value[0], *axis = envelope->rule_value + 1;
    if (n >= MD_COUNT(envelope->rule_value))
        return "rows are looked up in more tensors than the rule can name";
    for (int32_t i = 1; i < n; i++)
        if (shape->extent[axis[i] >> AXIS_BITS][axis[i] & 255] != shape->extent[axis[0] >> AXIS_BITS][axis[0] & 255])
            return "tensors that rows are looked up in have different lengths";
    return NULL;
}

typedef struct least_extent {
    const md_kn_shape *shape;
    int64_t least;
} least_extent;

static void take_extent(void *user, int32_t tensor, int32_t axis)
{
    least_extent *l = user;
    l->least = MD_MIN(l->least, l->shape->extent[tensor][axis]);
}

double md_fa_product_used_groups(double groups, double rows)
{
    return fmax(groups * (1 - pow(1 - 1 / groups, rows)), 1);
}

int64_t md_fa_product_groups(const md_fa_target *target, const md_kn_shape *shape)
{
    least_extent l = {.shape = shape, .least = INT64_MAX};
    md_st_each_group_axis(&md_fa_stage(target)->product, take_extent, &l);
    return l.least == INT64_MAX ? 0 : l.least;
}

static void note_axis(void *user, int32_t tensor, int32_t axis)
{
    md_kn_envelope *out = user;
    const int32_t n = ++out->rule_value[0];
    if (n < MD_COUNT(out->rule_value))
        out->rule_value[n] = tensor << AXIS_BITS | axis;
}

void md_fa_product_group_envelope(md_kn_envelope *out, const md_fa_target *target)
{
    out->rule_miss = groups_miss;
    out->rule_value[0] = 0;
    md_st_each_group_axis(&md_fa_stage(target)->product, note_axis, out);
}

static md_status emit_launch(md_kn_launch_source *out, const md_fa_target *target, const md_cg_product *product,
                             const char *template_name, md_strbuf *defines, bool is_packed)
{
    md_strbuf expr = {0};
    out->code = MD_KN_TEXT;
    snprintf(out->entry, sizeof out->entry, "md_kernel");
    int32_t n = md_cg_params(out->param, target->program, target->stage);
    if (n < 0)
        return md_fail(MD_UNSUPPORTED, "the stage has more tensors and sizes than a kernel takes parameters");
    out->param[n++] = (md_kn_param){.kind = MD_KN_BLOCKS};
    out->param[n++] = (md_kn_param){.kind = MD_KN_WORKSPACE};
    if (is_packed)
        out->param[n++] = (md_kn_param){.kind = MD_KN_PACKED};
    out->n_params = n;
    md_strbuf_printf(defines, "#define MD_VL %" PRId32 "\n", md_cg_width(target->facts));
    md_status status = md_cg_product_print(defines, &expr, product, out->param, n);
    return md_fa_end_launch(status, out, MD_DEV_HOST, template_name, defines, &expr);
}

md_status md_fa_product_emit_launch(md_kn_launch_source *out, const md_fa_target *target, const md_cg_product *product,
                                    const char *template_name, md_strbuf *defines)
{
    return emit_launch(out, target, product, template_name, defines, false);
}

md_status md_fa_product_emit_packed(md_kn_launch_source *out, const md_fa_target *target, const md_cg_product *product,
                                    const char *template_name, md_strbuf *defines)
{
    return emit_launch(out, target, product, template_name, defines, true);
}

md_status md_fa_product_emit(md_kn_source *out, const md_fa_target *target, const md_cg_product *product,
                             const char *template_name, md_strbuf *defines)
{
    out->n_launches = 1;
    md_status status = md_fa_product_emit_launch(&out->launch[0], target, product, template_name, defines);
    md_strbuf_finish(defines);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}
