/* Finds and prints loads whose places are planned for all rows. */
#include "family/host/point/places.h"

#include "base/dtype.h"
#include "expr/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Which loads */

/* Made of the lanes' index, sizes and constants. */
static bool is_of_lanes(const md_fx_node *n, int32_t lane)
{
    if (n->kind != MD_FX_OP && n->kind != MD_FX_CAST)
        return n->kind == MD_FX_CONST || n->kind == MD_FX_SIZE || md_fx_is_index(n, lane);
    for (int32_t i = 0; i < n->n_args; i++)
        if (!is_of_lanes(n->arg[i], lane))
            return false;
    return true;
}

/* A subscript as a sum: what lanes share, and what depends on their index alone. Each may be NULL: 0. */
typedef struct halves {
    const md_fx_node *shared, *lanes;
} halves;

static const md_fx_node *join(md_cg *cg, md_fx_op op, const md_fx_node *a, const md_fx_node *b)
{
    static const md_fx_node zero = {.kind = MD_FX_CONST, .type = MD_I64};
    if (!b || (!a && op == MD_FX_ADD))
        return b ? b : a;
    const md_fx_node *arg[2] = {a ? a : &zero, b};
    const md_fx_node sum = {.kind = MD_FX_OP, .op = op, .type = MD_I64, .n_args = 2, .arg = arg};
    return cg ? md_cg_keep(cg, &sum) : b;
}

/* False where it is no such sum. Without cg only that is said. */
static bool split(halves *out, md_cg *cg, const md_fx_node *n, int32_t lane)
{
    *out = (halves){0};
    if (!md_fx_uses_index(n, lane)) {
        out->shared = n;
        return n->kind != MD_FX_CHECK;
    }
    if (is_of_lanes(n, lane)) {
        out->lanes = n;
        return true;
    }
    if (n->kind != MD_FX_OP || (n->op != MD_FX_ADD && n->op != MD_FX_SUB))
        return false;
    halves a, b;
    if (!split(&a, cg, n->arg[0], lane) || !split(&b, cg, n->arg[1], lane))
        return false;
    out->shared = join(cg, n->op, a.shared, b.shared);
    out->lanes = join(cg, n->op, a.lanes, b.lanes);
    return true;
}

/* No vector in memory as it is, and its subscripts are sums. */
static bool is_placed(const md_fx_node *n, int32_t lane)
{
    bool is_any = false;
    for (int32_t i = 0; i < n->n_args; i++) {
        halves h;
        if (md_fx_has_kind(n->arg[i], MD_FX_CHECK) || !split(&h, NULL, n->arg[i], lane))
            return false;
        is_any = is_any || (h.lanes && !(i == n->n_args - 1 && md_fx_is_index(h.lanes, lane)));
    }
    return is_any;
}

static void add(int32_t *n, const md_fx_node **list, const md_fx_node *node)
{
    for (int32_t i = 0; i < *n; i++)
        if (md_fx_equal(NULL, list[i], node))
            return;
    if (*n < MD_FA_MOST_PLACED)
        list[(*n)++] = node;
}

/* What is read only under a condition stays where it is. */
static void find(md_fa_placed *out, const md_fx_node *n, int32_t lane)
{
    if (n->kind == MD_FX_LOAD) {
        if (is_placed(n, lane))
            add(&out->n_loads, out->load, n);
        return;
    }
    if (n->kind != MD_FX_OP && n->kind != MD_FX_CAST)
        return;
    if (is_of_lanes(n, lane) && md_fx_uses_index(n, lane)) {
        add(&out->n_values, out->value, n);
        return;
    }
    for (int32_t i = 0; i < (n->op == MD_FX_WHERE && n->kind == MD_FX_OP ? 1 : n->n_args); i++)
        find(out, n->arg[i], lane);
}

bool md_fa_placed_find(md_fa_placed *out, const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    *out = (md_fa_placed){0};
    for (int32_t i = 0; st->axis >= 0 && i < st->n_stores; i++)
        find(out, st->store[i].value, st->axis);
    return out->n_loads > 0;
}

/* ---- Text */

void md_fa_placed_types(md_strbuf *out, const md_fa_target *target, const md_fa_placed *placed)
{
    (void)target;
    md_strbuf_add(out, "typedef struct md_places {\n");
    for (int32_t i = 0; i < placed->n_loads; i++)
        md_strbuf_printf(out, "md_window w%" PRId32 ";\n", i);
    for (int32_t i = 0; i < placed->n_values; i++)
        md_strbuf_printf(out, "%s f%" PRId32 ";\n", md_cg_lane_type(placed->value[i]->type), i);
    md_strbuf_add(out, "} md_places;\n");
}

/* Adds the lanes' part of a load's place. */
static void add_place(md_strbuf *place, md_cg *cg, const md_fx_node *load, int32_t lane)
{
    for (int32_t a = 0; a < load->n_args; a++) {
        halves h;
        const char *text = split(&h, cg, load->arg[a], lane) && h.lanes ? md_cg_lanes(cg, h.lanes) : NULL;
        if (text)
            md_strbuf_printf(place, "%s%s * md_splat_i(p->s%" PRId32 "_%" PRId32 ")", place->size > 0 ? " + " : "",
                             text, load->id, a);
    }
}

/* Prints the windows of all loads: one for those that differ only in what lanes share. */
static void print_windows(md_strbuf *body, md_cg *cg, md_fa_placed *placed, int32_t lane)
{
    md_strbuf place[MD_FA_MOST_PLACED] = {{0}};
    for (int32_t i = 0; i < placed->n_loads; i++) {
        add_place(&place[i], cg, placed->load[i], lane);
        body->failed |= place[i].failed;
        int32_t same = 0;
        while (same < i && strcmp(md_strbuf_text(&place[same]), md_strbuf_text(&place[i])) != 0)
            same++;
        placed->window[i] = same;
        if (same == i)
            md_strbuf_printf(body, "md_window_make(&places[k].w%" PRId32 ", %s, md_n);\n", i,
                             md_strbuf_text(&place[i]));
    }
    for (int32_t i = 0; i < placed->n_loads; i++)
        md_strbuf_finish(&place[i]);
}

md_status md_fa_placed_make(md_strbuf *out, const md_fa_target *target, md_fa_placed *placed,
                            const md_cg_options *options)
{
    const int32_t lane = md_fa_stage(target)->axis;
    md_strbuf body = {0};
    md_cg *cg = md_cg_create(options);
    if (!cg)
        return md_fail_memory();
    md_cg_begin(cg, &body);
    print_windows(&body, cg, placed, lane);
    for (int32_t i = 0; i < placed->n_values; i++) {
        const char *text = md_cg_lanes(cg, placed->value[i]);
        md_strbuf_printf(&body, "places[k].f%" PRId32 " = %s;\n", i, text ? text : "");
    }
    md_strbuf_printf(out,
                     "md_places places[MD_PLACED / MD_VL];\nfor (int64_t x%" PRId32 " = lane, k = 0; x%" PRId32
                     " < lane_end; x%" PRId32 " += MD_VL, k++) {\nconst int md_n = lane_end - x%" PRId32
                     " < MD_VL ? (int)(lane_end - x%" PRId32 ") : MD_VL;\n%s}\n",
                     lane, lane, lane, lane, lane, md_strbuf_text(&body));
    out->failed |= body.failed;
    const md_status status = md_cg_status(cg);
    md_strbuf_finish(&body);
    md_cg_destroy(&cg);
    return status;
}

/* The load's place but for the lanes. */
static const char *shared_place(md_cg *cg, const md_fx_node *load, int32_t lane)
{
    static const md_fx_node zero = {.kind = MD_FX_CONST, .type = MD_I64};
    const md_fx_node *arg[MD_MAX_RANK];
    for (int32_t a = 0; a < load->n_args; a++) {
        halves h;
        (void)split(&h, cg, load->arg[a], lane);
        arg[a] = h.shared ? h.shared : &zero;
    }
    md_fx_node shared = *load;
    shared.arg = arg;
    const md_fx_node *kept = md_cg_keep(cg, &shared);
    const char *condition = NULL;
    return kept ? md_cg_offset(cg, kept, &condition) : NULL;
}

void md_fa_placed_bind(md_strbuf *body, md_cg *cg, const md_fa_target *target, const md_fa_placed *placed)
{
    const md_fx_formula *f = target->program->formula;
    const int32_t lane = md_fa_stage(target)->axis;
    char name[24];
    md_strbuf_printf(body, "const md_places *const at = &places[(uint64_t)(x%" PRId32 " - lane) / MD_VL];\n", lane);
    for (int32_t i = 0; i < placed->n_loads; i++) {
        const md_fx_node *load = placed->load[i];
        const char *place = shared_place(cg, load, lane);
        md_strbuf_printf(body,
                         "const %s w%" PRId32 " = md_load_%s_window(p->t%" PRId32 ", %s, &at->w%" PRId32 ", md_n);\n",
                         md_cg_lane_type(load->type), i, md_dtype_name(f->tensor[load->id].dtype), load->id,
                         place ? place : "0", placed->window[i]);
        snprintf(name, sizeof name, "w%" PRId32, i);
        md_cg_bind(cg, load, name, false);
    }
    for (int32_t i = 0; i < placed->n_values; i++) {
        snprintf(name, sizeof name, "at->f%" PRId32, i);
        md_cg_bind(cg, placed->value[i], name, false);
    }
}
