import { useEffect, useState } from "react";
import { useAct, useClient, useSession } from "../session/session.tsx";
import { ActionButton } from "../ui/actions.tsx";
import { Choice } from "../ui/choices.tsx";
import { CheckField, Form, TextField } from "../ui/form.tsx";
import { Place } from "../ui/place.tsx";
import { QrCode } from "../ui/qr-code.tsx";
import { PagedTable, Part } from "../ui/records.tsx";
import { applyTheme, chosenTheme, THEMES } from "../theme.ts";
import { Id, When } from "../ui/values.tsx";
import { formatTime } from "../units.ts";
import { ApiKeys } from "./api-keys.tsx";
import { StepUpFields, stepUp, stepUpOrRecover, useWhoAmI } from "./step-up.tsx";

const ROWS = 25;

export default function AccountPage() {
  return (
    <>
      <Place of="your keys">
        <ApiKeys />
      </Place>
      <div className="columns">
        <Place of="your authenticator app">
          <Totp />
        </Place>
        <Password />
      </div>
      <Place of="the security events">
        <SecurityEvents />
      </Place>
      <ThisBrowser />
    </>
  );
}

function ThisBrowser() {
  const { email, signOut } = useSession();
  const [theme, setTheme] = useState(chosenTheme);
  return (
    <Part title="This browser">
      <div className="row">
        <Choice
          label="Colours"
          options={THEMES}
          value={theme}
          onChange={(next) => {
            setTheme(next);
            applyTheme(next);
          }}
        />
        <span className="muted">Signed in as {email}</span>
        <button type="button" onClick={signOut}>
          Sign out
        </button>
      </div>
    </Part>
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
            done="The app stays."
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
      {codes.length === 0 ? null : <RecoveryCodes codes={codes} kept={() => setCodes([])} />}
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

type RecoveryCodesProps = { codes: readonly string[]; kept: () => void };

/** Nothing shows them again, so the browser asks before the page that has them goes. */
function RecoveryCodes({ codes, kept }: RecoveryCodesProps) {
  const text = codes.join("\n");
  useEffect(() => {
    const ask = (event: Event) => event.preventDefault();
    const stay = ({ oldURL }: HashChangeEvent) => {
      if (confirm("The recovery codes are not shown again. Leave them?")) return;
      history.replaceState(null, "", oldURL);
      dispatchEvent(new HashChangeEvent("hashchange"));
    };
    addEventListener("beforeunload", ask);
    // Before the router hears of it.
    addEventListener("hashchange", stay, { capture: true });
    return () => {
      removeEventListener("beforeunload", ask);
      removeEventListener("hashchange", stay, { capture: true });
    };
  }, []);
  return (
    <div className="card receipt" role="status">
      <p>Keep these recovery codes. They are shown once.</p>
      <pre>{text}</pre>
      <p className="row">
        <ActionButton
          label="Copy them"
          done="The recovery codes are copied."
          run={() => navigator.clipboard.writeText(text)}
        />
        <a
          className="button plain"
          download="recovery-codes.txt"
          href={`data:text/plain,${encodeURIComponent(text)}`}
        >
          Download them
        </a>
        <button type="button" className="primary" onClick={kept}>
          I have kept them
        </button>
      </p>
    </div>
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
        names={{ new_password: "new" }}
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

/** `totp_enabled` as "authenticator app enabled". */
function eventOf(kind: string): string {
  return kind.replaceAll("_", " ").replace("totp", "authenticator app").replace("api key", "key");
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
      <PagedTable
        caption="Events, newest first"
        queryKey={["audit-events"]}
        read={(from, position) => from.auth.auditEvents({ limit: ROWS, ...position })}
        rowKey={({ audit_event_id }) => audit_event_id}
        empty="No events yet."
        columns={[
          ["Time", ({ created_at }) => <When at={created_at} />],
          ["What", ({ kind }) => eventOf(kind)],
          ["By", ({ actor }) => actor.replace("api_key", "key")],
          ["From", ({ ip }) => ip ?? ""],
          ["About", ({ subject_id: id }) => (id === null ? "" : <Id id={id} />)],
        ]}
      />
      <p className="row">
        <ActionButton
          kind="danger"
          label="End all sessions"
          ask="This one too, here and everywhere?"
          run={end(false)}
        />
        <ActionButton
          kind="danger"
          label="End all sessions and revoke all keys"
          ask="Programs that use your keys stop too. Go on?"
          run={end(true)}
        />
      </p>
    </Part>
  );
}
