import { useState } from "react";
import { useAct, useClient, useSession } from "../session/session.tsx";
import { ActionButton, CheckField, Form, TextField } from "../ui/form.tsx";
import { QrCode } from "../ui/qr-code.tsx";
import { PagedTable, Part } from "../ui/records.tsx";
import { When } from "../ui/values.tsx";
import { formatTime } from "../units.ts";
import { ApiKeys } from "./api-keys.tsx";
import { StepUpFields, stepUp, stepUpOrRecover, useWhoAmI } from "./step-up.tsx";

const ROWS = 25;

export default function AccountPage() {
  return (
    <>
      <ApiKeys />
      <div className="columns">
        <Totp />
        <Password />
      </div>
      <SecurityEvents />
    </>
  );
}

function Totp() {
  const act = useAct("whoami");
  const totp = useWhoAmI()?.totp;
  const isOn = totp?.enabled === true;
  const { removal_at: removal = null, replacement_at: replacement = null } = totp ?? {};
  return (
    <Part title="Authenticator app">
      <p role="status">
        {isOn
          ? `On, with ${totp.recovery_codes_left} recovery codes left.`
          : "Off. Turn it on to approve withdrawals and to protect your login."}
      </p>
      {removal === null && replacement === null ? null : (
        <p>
          {removal === null ? null : `It is removed ${formatTime(removal)}. `}
          {replacement === null
            ? null
            : `Another device replaces it ${formatTime(replacement)}. Until then this one counts. `}
          <ActionButton
            label="Keep it"
            run={() => act((client) => client.auth.cancelTotpRemoval())}
          />
        </p>
      )}
      <Enrolment isOn={isOn} />
      {isOn && removal === null ? (
        <Form
          danger
          folded="Remove it"
          label="Remove the app"
          action="Remove"
          submit={(values) => act((client) => client.auth.removeTotp(stepUpOrRecover(values)))}
        >
          <StepUpFields recovery />
        </Form>
      ) : null}
    </Part>
  );
}

/** Starts with a QR code, and ends with recovery codes. */
function Enrolment({ isOn }: { isOn: boolean }) {
  const act = useAct("whoami");
  const [started, setStarted] = useState<{ secret: string; otpauth_uri: string } | null>(null);
  const [codes, setCodes] = useState<readonly string[]>([]);
  return (
    <>
      {codes.length === 0 ? null : (
        <div className="card receipt" role="status">
          <p>Keep these recovery codes. They are shown once.</p>
          <pre>{codes.join("\n")}</pre>
          <button type="button" onClick={() => setCodes([])}>
            I have kept them
          </button>
        </div>
      )}
      {started === null ? (
        <Form
          label="Authenticator app"
          action={isOn ? "Exchange the device" : "Turn it on"}
          submit={async (values) =>
            setStarted(await act((client) => client.auth.startTotp(stepUpOrRecover(values))))
          }
        >
          {isOn ? (
            <p>
              The new device counts after the security delay, and sessions only read until then.
              With a recovery code instead of the code it counts at once.
            </p>
          ) : null}
          <StepUpFields recovery />
        </Form>
      ) : (
        <Form
          label="Confirm the app"
          action="Confirm"
          submit={async (values) => {
            const totp_code = values.text("code");
            const { recovery_codes } = await act((client) =>
              client.auth.confirmTotp({ totp_code }),
            );
            setStarted(null);
            setCodes(recovery_codes);
          }}
        >
          <QrCode text={started.otpauth_uri} />
          <p>
            Scan it, or enter <code>{started.secret}</code>.
          </p>
          <TextField label="Code that the app shows" name="code" inputMode="numeric" required />
        </Form>
      )}
    </>
  );
}

function Password() {
  const client = useClient();
  const { replace } = useSession();
  return (
    <Part title="Password">
      <Form
        label="Change the password"
        action="Change it"
        done="Changed. Earlier sessions have ended."
        submit={async (values) =>
          replace(
            await client.auth.changePassword({
              ...stepUp(values),
              new_password: values.text("new"),
              revoke_keys: values.has("keys"),
            }),
          )
        }
      >
        <StepUpFields />
        <TextField
          label="New password"
          name="new"
          type="password"
          autoComplete="new-password"
          required
        />
        <CheckField label="Revoke the keys that sessions made" name="keys" checked />
      </Form>
    </Part>
  );
}

function SecurityEvents() {
  const client = useClient();
  const { signOut } = useSession();
  const end = (revoke_keys: boolean) => async () => {
    await client.auth.endSessions({ revoke_keys });
    signOut();
  };
  return (
    <Part title="Security events">
      <p className="row">
        <ActionButton kind="danger" label="End all sessions" run={end(false)} />
        <ActionButton kind="danger" label="End all sessions and revoke all keys" run={end(true)} />
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
