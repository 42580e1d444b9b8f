<#
.SYNOPSIS
  Installs Covey without a window, as a task that starts with Windows, or takes it away again.
.EXAMPLE
  .\install.ps1 controller -Lend                 # lead a covey; -Lend: this machine computes too
  .\install.ps1 worker                           # lend this machine; "covey join" says to whom, when it is up
  $string | .\install.ps1 worker -Join -         # by the join string that comes by the pipeline
  .\install.ps1 worker -Join -                   # the same, asked for
  .\install.ps1 worker -Controller HOST[:PORT]   # ask this controller, and compare the number that both show;
                                                 # with -Join -: try this address before those of the string
  .\install.ps1 uninstall                        # asks about the data; -KeepData or -Purge answer that
.NOTES
  As administrator the task starts with the machine and runs as a service account; otherwise it starts with the
  session of this user.
#>
param(
  [Parameter(Mandatory = $true, Position = 0)][ValidateSet('controller', 'worker', 'uninstall')][string]$Action,
  [switch]$Lend,
  [ValidateSet('-')][string]$Join,
  [ValidatePattern('^[A-Za-z0-9\[][A-Za-z0-9.:_%\[\]-]*$')][string]$Controller,
  [switch]$KeepData,
  [switch]$Purge,
  [Parameter(ValueFromPipeline = $true, DontShow = $true)][string]$Piped
)
$ErrorActionPreference = 'Stop'
if ($Piped -and -not $MyInvocation.ExpectingInput) {
  throw 'A join string among the arguments is seen by everybody here. Pipe it in, with -Join -.'
}
if ($Action -ne 'worker' -and ($Join -or $Controller)) { throw '-Join and -Controller are for "worker".' }
if ($Action -ne 'controller' -and $Lend) { throw '-Lend is for "controller": a worker lends in any case.' }
if ($Action -ne 'uninstall' -and ($KeepData -or $Purge)) { throw '-KeepData and -Purge are for "uninstall".' }
if ($KeepData -and $Purge) { throw 'Give one of -KeepData and -Purge.' }
$people = [Environment]::UserInteractive -and -not [Console]::IsInputRedirected -and -not $MyInvocation.ExpectingInput
$name = 'Covey'
$identity = [Security.Principal.WindowsPrincipal][Security.Principal.WindowsIdentity]::GetCurrent()
$administrator = $identity.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
if ($administrator) {
  $program = Join-Path $env:ProgramFiles 'Covey Headless'
  $data = Join-Path $env:ProgramData 'Covey'
} else {
  $program = Join-Path $env:LOCALAPPDATA 'Programs\Covey Headless'
  $data = Join-Path $env:APPDATA 'Covey'
}

function Stop-Covey {
  $task = Get-ScheduledTask -TaskName $name -ErrorAction SilentlyContinue
  if (-not $task) { return }
  Stop-ScheduledTask -TaskName $name -ErrorAction SilentlyContinue
  Unregister-ScheduledTask -TaskName $name -Confirm:$false
  # The task's end is not the end of its programs: those that run from our folder are ours.
  Get-CimInstance Win32_Process |
    Where-Object { $_.ExecutablePath -and $_.ExecutablePath.StartsWith($program, 'OrdinalIgnoreCase') } |
    ForEach-Object { Stop-Process -Id $_.ProcessId -Force -ErrorAction SilentlyContinue }
}

if ($Action -eq 'uninstall') {
  if (-not $KeepData -and -not $Purge -and $people -and (Test-Path $data)) {
    $Purge = (Read-Host "Remove its data too: identity, settings and models in $data? [y/N]") -match '^y(es)?$'
  }
  Stop-Covey
  if ($administrator) { Remove-NetFirewallRule -DisplayName $name -ErrorAction SilentlyContinue }
  Remove-Item $program -Recurse -Force -ErrorAction SilentlyContinue
  if ($Purge) {
    Remove-Item $data -Recurse -Force -ErrorAction SilentlyContinue
    Write-Host 'Covey is removed, with its data.'
  } else {
    Write-Host "Covey is removed. What it knew and its models are still in $data; `"uninstall -Purge`" removes them."
  }
  exit 0
}

$node = Join-Path $PSScriptRoot 'bin\node.exe'
if (-not (Test-Path $node)) { throw "Run this from the unpacked archive: $node is missing." }
Stop-Covey
if ($PSScriptRoot -ne $program) {
  Remove-Item $program -Recurse -Force -ErrorAction SilentlyContinue
  New-Item $program -ItemType Directory -Force | Out-Null
  Copy-Item (Join-Path $PSScriptRoot '*') $program -Recurse
}
New-Item $data -ItemType Directory -Force | Out-Null
# The data holds keys: for its owner and the system alone.
$owner = if ($administrator) { 'NT AUTHORITY\LOCAL SERVICE' } else { "$env:USERDOMAIN\$env:USERNAME" }
& icacls $data /inheritance:r /grant:r 'SYSTEM:(OI)(CI)F' 'BUILTIN\Administrators:(OI)(CI)F' "${owner}:(OI)(CI)F" | Out-Null

$node = Join-Path $program 'bin\node.exe'
$entry = Join-Path $program 'dist\covey.js'
if ($Join) {
  # It works once, so the worker joins here, before the task starts. It stands in no argument list.
  $string = if ($Piped) { $Piped } elseif ($people) { Read-Host 'Join string' } else { [Console]::In.ReadLine() }
  if (-not $string) { throw 'No join string came.' }
  $ready = Join-Path $data 'ready.json'
  $start = New-Object Diagnostics.ProcessStartInfo $node
  $start.Arguments = "`"$entry`" worker --data `"$data`" --join - --api none --no-discovery --ready-file `"$ready`""
  if ($Controller) { $start.Arguments += " --controller $Controller" }
  $start.UseShellExecute = $false
  $start.RedirectStandardInput = $true
  $joining = [Diagnostics.Process]::Start($start)
  $joining.StandardInput.WriteLine($string)
  for ($waited = 0; $waited -lt 60 -and -not (Test-Path $ready) -and -not $joining.HasExited; $waited++) { Start-Sleep 1 }
  $joined = Test-Path $ready
  if (-not $joining.HasExited) { & taskkill /PID $joining.Id /T /F | Out-Null }
  Remove-Item $ready -ErrorAction SilentlyContinue
  if (-not $joined) { throw 'This machine could not join.' }
  Write-Host 'Joined.'
}

$role = if ($Action -eq 'controller' -and $Lend) { 'controller --lend' } else { $Action }
$run = New-ScheduledTaskAction -Execute $node -Argument "`"$entry`" $role --data `"$data`"" -WorkingDirectory $program
$settings = New-ScheduledTaskSettingsSet -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries -ExecutionTimeLimit 0 `
  -RestartCount 10 -RestartInterval (New-TimeSpan -Minutes 1)
if ($administrator) {
  Remove-NetFirewallRule -DisplayName $name -ErrorAction SilentlyContinue
  New-NetFirewallRule -DisplayName $name -Direction Inbound -Action Allow -Program $node -Profile Private, Domain | Out-Null
  $account = New-ScheduledTaskPrincipal -UserId 'NT AUTHORITY\LOCAL SERVICE' -LogonType ServiceAccount
  $trigger = New-ScheduledTaskTrigger -AtStartup
} else {
  $account = New-ScheduledTaskPrincipal -UserId "$env:USERDOMAIN\$env:USERNAME" -LogonType Interactive
  $trigger = New-ScheduledTaskTrigger -AtLogOn -User "$env:USERDOMAIN\$env:USERNAME"
}
Register-ScheduledTask -TaskName $name -Action $run -Trigger $trigger -Principal $account -Settings $settings | Out-Null
Start-ScheduledTask -TaskName $name
$covey = Join-Path $program 'bin\covey.cmd'
Write-Host "The $Action is installed and runs. `"$covey`" status --data `"$data`" tells how it is."
if ($Action -ne 'worker' -or $Join) { return }
if (-not $Controller) {
  Write-Host "It belongs to no covey yet, unless it did before: run `"$covey`" join --data `"$data`" here."
} elseif (-not $people) {
  Write-Host "To join, run here: `"$covey`" join $Controller --data `"$data`""
} else {
  # By the number that both sides show: people are needed for it, here too.
  for ($waited = 0; $waited -lt 30; $waited++) {
    & $covey status --data $data *> $null
    if ($LASTEXITCODE -eq 0) { break }
    Start-Sleep 1
  }
  & $covey join $Controller --data $data
}
