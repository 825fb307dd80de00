/* Random products of two kinds that random_op does not draw: sums over windows, and products with narrow weights. */
#include "support/random/random_product.h"

#include "base/status.h"
#include "support/check.h"

static int32_t pick(uint64_t *state, int32_t n)
{
    return (int32_t)(check_random(state) % (uint64_t)n);
}

static bool happens(uint64_t *state, int32_t one_in)
{
    return pick(state, one_in) == 0;
}

/* ---- Windows */

typedef struct window {
    int32_t n_axes, step[3], dilation[3], offset[3], channel;
    bool is_guarded, channels_last, has_groups;
} window;

static const char row_of[] = "yxz", tap_of[] = "rst";

static void draw(window *w, uint64_t *state)
{
    static const int32_t steps[] = {1, 1, 1, 2, 3, 127, 200}, dilations[] = {1, 1, 1, 2, 3, 126},
                         offsets[] = {0, -1, -1, -2, 2, 1 << 24, (1 << 24) + 1};
    w->n_axes = 1 + pick(state, 3);
    for (int32_t a = 0; a < w->n_axes; a++) {
        w->step[a] = steps[pick(state, MD_COUNT(steps))];
        w->dilation[a] = dilations[pick(state, MD_COUNT(dilations))];
        w->offset[a] = offsets[pick(state, MD_COUNT(offsets))];
    }
    w->is_guarded = !happens(state, 4);
    w->channels_last = !happens(state, 3);
    w->has_groups = happens(state, 4);
    w->channel = happens(state, 2) ? pick(state, 6) : 0;
    for (int32_t a = 0; a < w->n_axes && !w->is_guarded; a++)
        w->offset[a] = w->offset[a] < 0 ? 0 : w->offset[a];
}

static void print_place(md_strbuf *out, const window *w, int32_t a)
{
    md_strbuf_printf(out, "%d*%c+%d*%c%+d", w->step[a], row_of[a], w->dilation[a], tap_of[a], w->offset[a]);
}

static void print_list(md_strbuf *out, const char *names, int32_t n)
{
    for (int32_t a = 0; a < n; a++)
        md_strbuf_printf(out, "%s%c", a ? "," : "", names[a]);
}

static void print_guards(md_strbuf *out, const window *w)
{
    const int32_t first = w->channels_last ? 1 : 2 + w->has_groups;
    for (int32_t a = 0; a < w->n_axes; a++) {
        md_strbuf_add(out, a ? " and " : "");
        print_place(out, w, a);
        md_strbuf_add(out, " >= 0 and ");
        print_place(out, w, a);
        md_strbuf_printf(out, " < size(X.%d)", first + a);
    }
}

static void print_load(md_strbuf *out, const window *w, const char *dtype)
{
    static const char *const channels[] = {"c", "c+4", "c+8", "2*c", "8*c", "c+y"};
    md_strbuf_printf(out, "X:%s[n,%s", dtype, w->channels_last ? "" : w->has_groups ? "g,c," : "c,");
    for (int32_t a = 0; a < w->n_axes; a++) {
        md_strbuf_add(out, a ? "," : "");
        print_place(out, w, a);
    }
    if (w->channels_last)
        md_strbuf_printf(out, ",%s%s", w->has_groups ? "g," : "", channels[w->channel]);
    md_strbuf_add(out, "]");
}

void random_window(md_strbuf *out, uint64_t *state)
{
    static const char *const dtypes[] = {"bf16", "f16", "f32", "bf16", "i8"};
    window w = {0};
    draw(&w, state);
    const char *dtype = dtypes[pick(state, MD_COUNT(dtypes))], *result = dtype[0] == 'i' ? "i32" : dtype;
    const char *group = w.has_groups ? "g," : "";
    const bool is_gradient = happens(state, 4), is_sized = happens(state, 2);
    if (is_sized)
        md_strbuf_printf(out, "size r=%d; ", 1 + pick(state, 5));
    md_strbuf_printf(out, is_gradient ? "Y:%s[%so," : "Y:%s[n,%so,", result, group);
    print_list(out, is_gradient ? tap_of : row_of, w.n_axes);
    md_strbuf_printf(out, "%s] = sum[%s", is_gradient ? ",c" : "", is_gradient ? "n," : "");
    print_list(out, is_gradient ? row_of : tap_of, w.n_axes);
    md_strbuf_printf(out, "%s](%s", is_gradient ? "" : ",c", w.is_guarded ? "where(" : "");
    if (w.is_guarded)
        print_guards(out, &w);
    md_strbuf_add(out, w.is_guarded ? ", " : "");
    print_load(out, &w, dtype);
    md_strbuf_printf(out, "%s * W:%s[%s%s", w.is_guarded ? ", 0)" : "", dtype, is_gradient ? "n," : "", group);
    md_strbuf_add(out, "o,");
    print_list(out, is_gradient ? row_of : tap_of, w.n_axes);
    md_strbuf_printf(out, "%s])", is_gradient ? "" : ",c");
}

/* ---- Narrow weights */

void random_weights(md_strbuf *out, uint64_t *state)
{
    static const char *const activations[] = {"f32", "bf16", "bf16", "f16", "i8"}, *const weights[] = {
                                                                                       "i4", "u4",     "i8",
                                                                                       "u8", "f8e4m3", "bf16"};
    static const int32_t groups[] = {0, 1, 16, 32, 100, 128, 256};
    const char *a = activations[pick(state, MD_COUNT(activations))], *w = weights[pick(state, MD_COUNT(weights))];
    const int32_t group = groups[pick(state, MD_COUNT(groups))];
    const bool is_turned = happens(state, 4), has_zero = happens(state, 3), has_experts = happens(state, 3);
    const char *expert = has_experts ? happens(state, 2) ? "e[i]," : "e[i//8]," : "";
    const char *scale = happens(state, 4) ? "v[i] * " : "", *result = happens(state, 2) ? "bf16" : "f32";
    md_strbuf_printf(out, "Y:%s[i,j] = %ssum[k](f32(A:%s[i,k]) * (f32(B:%s[%s%s])", result, scale, a, w, expert,
                     is_turned ? "k,j" : "j,k");
    if (has_zero)
        md_strbuf_printf(out, " - z[%sj%s]", expert, group ? ",k//32" : "");
    md_strbuf_add(out, ")");
    if (group > 1)
        md_strbuf_printf(out, " * s[%sj,k//%d]", expert, group);
    md_strbuf_printf(out, ")%s%s", group == 1 ? " * t[j]" : "", happens(state, 4) ? " + b[j]" : "");
}
