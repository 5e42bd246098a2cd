import { Problem } from "@rfq-custody/client";

export function ProblemText({ error, id }: { error: unknown; id?: string | undefined }) {
  return (
    <p className="problem" role="alert" id={id}>
      {explain(error)}
    </p>
  );
}

/** What went wrong, in the service's own words. */
export function explain(error: unknown): string {
  if (error instanceof Problem) {
    const fields = error.errors.map(({ path, message }) => `${path}: ${message}`).join("; ");
    const detail = error.body.detail ?? error.body.title ?? error.code;
    return fields === "" ? detail : `${detail} (${fields})`;
  }
  return error instanceof Error ? error.message : String(error);
}
