import { useQueryClient } from "@tanstack/react-query";
import { useClient, useSession } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { PagedTable } from "../ui/pages.tsx";
import { When } from "../ui/times.tsx";
import { Part } from "../ui/facts.tsx";

const ROWS = 25;

export function SecurityEvents() {
  const client = useClient();
  const queries = useQueryClient();
  const { signOut } = useSession();
  return (
    <Part title="Security events">
      <p className="row">
        {[false, true].map((revokeKeys) => (
          <ActionButton
            key={String(revokeKeys)}
            kind="danger"
            label={revokeKeys ? "End all sessions and revoke all keys" : "End all sessions"}
            run={async () => {
              await client.auth.endSessions({ revoke_keys: revokeKeys });
              queries.clear();
              signOut();
            }}
          />
        ))}
      </p>
      <PagedTable
        caption="Events, newest first"
        queryKey={["audit-events"]}
        read={(from, position) => from.auth.auditEvents({ limit: ROWS, ...position })}
        rowKey={({ audit_event_id }) => audit_event_id}
        empty="No events yet."
        columns={[
          ["Time", ({ created_at }) => <When at={created_at} />],
          ["What", ({ kind }) => kind.replaceAll("_", " ")],
          ["By", ({ actor }) => actor],
          ["From", ({ ip }) => ip ?? "–"],
          ["About", ({ subject_id: id }) => (id === null ? "–" : <code>{id}</code>)],
        ]}
      />
    </Part>
  );
}
