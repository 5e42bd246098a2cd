/** What a table without rows says. A page with filters may be empty although older ones match. */
export function emptyText(
  page: { readonly next_cursor: string | null } | undefined,
  nothing: string,
): string {
  if (page === undefined || page.next_cursor === null) return nothing;
  return "Nothing on this page matches. Press Older to search further back.";
}
