/* The table of families. Tests that bring their own families define md_fa_families themselves; then this file is not
 * linked. */
#include "family/family.h"

#define MD_FAMILY_HOST(name) extern const md_fa_family md_fa_host_##name;
#define MD_FAMILY_CUDA(name) extern const md_fa_family md_fa_cuda_##name;
#include "md_families.h"
#undef MD_FAMILY_HOST
#undef MD_FAMILY_CUDA

#define MD_FAMILY_HOST(name) &md_fa_host_##name,
#define MD_FAMILY_CUDA(name)
static const md_fa_family *const host[] = {
#include "md_families.h"
    NULL};
#undef MD_FAMILY_HOST
#undef MD_FAMILY_CUDA

#define MD_FAMILY_HOST(name)
#define MD_FAMILY_CUDA(name) &md_fa_cuda_##name,
static const md_fa_family *const cuda[] = {
#include "md_families.h"
    NULL};

const md_fa_family *const *md_fa_families(md_dev_kind device)
{
    static const md_fa_family *const none[] = {NULL};
    return device == MD_DEV_HOST ? host : device == MD_DEV_CUDA ? cuda : none;
}
