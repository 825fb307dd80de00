/* Parts of printing a kernel that all families share: the start of a launch, several launches, row programs. */
#include "family/emit.h"

#include "base/status.h"
#include "codegen/codegen.h"

#include <inttypes.h>
#include <stdio.h>

md_status md_fa_begin_launch(md_kn_launch_source *out, const md_fa_target *target)
{
    out->code = MD_KN_TEXT;
    snprintf(out->entry, sizeof out->entry, "md_kernel");
    out->n_params = md_cg_params(out->param, target->program, target->stage);
    if (out->n_params < 0)
        return md_fail(MD_UNSUPPORTED, "a stage of more than %d parameters", MD_KN_MAX_PARAMS - 8);
    return MD_OK;
}

md_status md_fa_end_launch(md_status status, md_kn_launch_source *out, md_dev_kind device, const char *template_name,
                           md_strbuf *defines, md_strbuf *expr)
{
    if (status == MD_OK && (defines->failed || expr->failed))
        status = md_fail_memory();
    if (status == MD_OK)
        status = md_cg_assemble(&out->text, device, template_name, md_strbuf_text(defines), md_strbuf_text(expr));
    md_strbuf_finish(defines);
    md_strbuf_finish(expr);
    return status;
}

md_status md_fa_emit_launches(md_kn_source *out, const md_fa_target *target, const md_fa_config *config, int32_t n,
                              md_fa_emit_launch *emit)
{
    md_status status = MD_OK;
    *out = (md_kn_source){.n_launches = n};
    for (int32_t i = 0; i < n && status == MD_OK; i++)
        status = emit(&out->launch[i], target, config, n > 1 ? i + 1 : 0);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

md_status md_fa_emit_row(md_kn_launch_source *out, const md_fa_target *target, const md_cg_row_options *options,
                         const char *template_name, md_strbuf *defines)
{
    md_strbuf expr = {0};
    md_status status = md_fa_begin_launch(out, target);
    for (int32_t i = 0; status == MD_OK && i < options->n_extra; i++)
        out->param[out->n_params++] = options->extra[i];
    if (status == MD_OK)
        status = md_cg_row_print(defines, &expr, options);
    return md_fa_end_launch(status, out, options->dialect, template_name, defines, &expr);
}

void md_fa_print_defines(md_strbuf *out, const md_fa_define *define, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "#define MD_%s %" PRId64 "\n", define[i].name, define[i].value);
}
