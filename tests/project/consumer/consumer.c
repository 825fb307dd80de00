#include <md/md.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", MD_VERSION_MAJOR, MD_VERSION_MINOR, MD_VERSION_PATCH);
    printf("multidispatch %s\n", md_version());
    return strcmp(md_version(), version) != 0 || md_dtype_size(MD_BF16) != 2;
}
