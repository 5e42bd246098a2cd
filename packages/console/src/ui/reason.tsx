import { explain } from "./problems.ts";

/** Why something failed, where a page that works does not need the words. */
export default function Reason({ error }: { error: unknown }) {
  return <span>{explain(error)}</span>;
}
