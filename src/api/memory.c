/* Memory, copies and waiting on the device of a context. */
#include "api/context.h"
#include "base/status.h"

md_status md_alloc(void **out, md_context *context, size_t n_bytes)
{
    if (!out || !context)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "context" : "out");
    return context->dev->ops->alloc(out, context->dev, n_bytes);
}

void md_free(md_context *context, void *p)
{
    if (context && p)
        context->dev->ops->free(context->dev, p);
}

md_status md_copy(md_context *context, void *to, const void *from, size_t n_bytes)
{
    if (!context || (n_bytes && (!to || !from)))
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", !context ? "context" : to ? "from" : "to");
    return context->dev->ops->copy(context->dev, to, from, n_bytes);
}

md_status md_sync(md_context *context, md_stream stream)
{
    if (!context)
        return md_fail(MD_INVALID_ARGUMENT, "context is NULL");
    return context->dev->ops->sync(context->dev, stream);
}
