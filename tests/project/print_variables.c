/* Prints the names of all environment variables that the library reads. */
#include <md/md.h>
#include <stdio.h>

int main(void)
{
    const char *name = NULL, *values = NULL, *meaning = NULL;
    for (int32_t i = 0;; i++) {
        md_variables(i, &name, &values, &meaning);
        if (!name)
            return 0;
        puts(name);
    }
}
