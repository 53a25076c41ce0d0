/* A program of somebody else's, built against the installed tree.
 * SPDX-License-Identifier: Apache-2.0 */
#include <quern.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  if (quern_abi_version() != QUERN_ABI_VERSION) return 1;
  quern_error error;
  memset(&error, 0, sizeof error);
  error.size = sizeof error;
  quern_context_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.flags = QUERN_CONTEXT_NO_CACHE;
  quern_context *context = NULL;
  if (quern_context_create(&options, &context, &error) != QUERN_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 2;
  }
  /* The installed library finds the installed helper: the host compiler can only be asked through it. */
  quern_list *findings = NULL;
  if (quern_doctor(context, &findings, &error) != QUERN_OK) return 3;
  int compiler = 0;
  for (uint64_t i = 0; i < quern_list_count(findings); ++i) {
    quern_finding finding;
    memset(&finding, 0, sizeof finding);
    finding.size = sizeof finding;
    if (quern_list_finding(findings, i, &finding) != QUERN_OK) return 4;
    printf("%s: %s\n", finding.what, finding.text);
    if (strcmp(finding.what, "cxx") == 0 && finding.status == QUERN_OK) compiler = 1;
  }
  quern_list_free(findings);
  quern_context_destroy(context);
  return compiler ? 0 : 5;
}
